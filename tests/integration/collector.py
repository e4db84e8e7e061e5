"""A collector of traces in the test's own process: OTLP over gRPC, read with OpenTelemetry's own descriptors."""

import concurrent.futures
import threading

import grpc
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

import server_process


def attributes(holder):
    """{key: value} of a span or a resource."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in holder.attributes}


def unknown_fields(message):
    """How many fields the descriptors do not know, at any depth."""
    count = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            count += sum(map(unknown_fields, value if field.is_repeated else [value]))
    return count


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, address="127.0.0.1:0", credentials=None):
        self._news = threading.Condition()
        self._spans = []
        self.resources = []
        self.unknown = 0
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        port = (self._server.add_secure_port(address, credentials) if credentials
                else self._server.add_insecure_port(address))
        self.address = f"{address.rpartition(':')[0]}:{port}"
        self._server.start()

    def Export(self, request, context):
        with self._news:
            self.unknown += unknown_fields(request)
            for sent in request.resource_spans:
                self.resources.append(attributes(sent.resource))
                for scope in sent.scope_spans:
                    self._spans += scope.spans
            self._news.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    @property
    def spans(self):
        with self._news:
            return list(self._spans)

    def wait_for(self, count):
        """Waits for that many spans, and returns them."""
        with self._news:
            assert self._news.wait_for(lambda: len(self._spans) >= count, server_process.DEADLINE), self._spans
        return self.spans

    def wait_for_call(self, request_id):
        """The span of the call, and those of its trace: a message has all of them, for so few."""
        def find():
            return next((span for span in self._spans if attributes(span).get("latentd.request_id") == request_id), None)

        with self._news:
            assert self._news.wait_for(find, server_process.DEADLINE), self._spans
            call = find()
            return call, [span for span in self._spans if span.trace_id == call.trace_id and span is not call]

    def stop(self):
        self._server.stop(grace=None).wait()
