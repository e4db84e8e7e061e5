#include "client/commands/commands.h"

namespace latentd::client {

const std::vector<Command>& Commands() {
  static const auto& commands = *new std::vector<Command>{{RunGenerate, GenerateShape},
                                                          {RunCompare, CompareShape},
                                                          {RunAnimate, AnimateShape},
                                                          {RunEncode, EncodeShape},
                                                          {RunCapabilities, CapabilitiesShape},
                                                          {RunHealth, HealthShape},
                                                          {RunStatus, StatusShape},
                                                          {RunMemory, MemoryShape},
                                                          {RunModels, ModelsShape},
                                                          {RunAdapters, AdaptersShape},
                                                          {RunGraphs, GraphsShape},
                                                          {RunCompletion, CompletionShape}};
  return commands;
}

}  // namespace latentd::client
