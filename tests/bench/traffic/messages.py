"""latent.v1 as a running latentd describes it. Needs protobuf, but no gRPC: peer_server.py has it in another Python."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def descriptors_of(request):
    """The file of latent.v1.GenerateRequest, which has the events too, and all that it imports: a serialized FileDescriptorSet."""
    files, found = [request.DESCRIPTOR.file], {}
    while files:
        file = files.pop()
        found[file.name] = file
        files += [other for other in file.dependencies if other.name not in found]
    described = descriptor_pb2.FileDescriptorSet()
    for file in found.values():
        file.CopyToProto(described.file.add())
    return described.SerializeToString()


def request_and_event(descriptors):
    """The types of GenerateStream."""
    pool = descriptor_pool.DescriptorPool()
    files = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file}

    def add(name):
        file = files.pop(name, None)
        if file is not None:
            for other in file.dependency:
                add(other)
            pool.Add(file)

    for name in list(files):
        add(name)
    return tuple(message_factory.GetMessageClass(pool.FindMessageTypeByName(f"latent.v1.{name}"))
                 for name in ("GenerateRequest", "GenerateEvent"))
