// A server in C++: eight threads decode with one program. Weights are wrapped once, each sequence's
// keys and values stay on the device from step to step, and only tokens move.
//
//     decoder MODEL [DEVICE]
#include <algorithm>
#include <cstdio>
#include <thread>

#include <tenon/cpp/session.hpp>

namespace {

using tenon::ArrayView, tenon::Input, tenon::Output, tenon::Tensor;

constexpr int64_t kWords = 32, kWidth = 16, kLengthMax = 64;
constexpr int kSteps = 40, kThreads = 8;

void stop_if(tenon::Status status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, tenon::failure_text().c_str());
  std::exit(1);
}

// The host's messages go where the server's own do. Called from any thread, also at once from
// several; it must not call Tenon.
void log_line(void*, uint32_t level, tenon_str_t component, tenon_str_t text) {
  const std::string line = tenon::cat("server: ", level <= TENON_LOG_WARN ? "! " : "",
                                      tenon::view(component), ": ", tenon::view(text), "\n");
  std::fputs(line.c_str(), stdout);
}

// Numbers that look random and are the same everywhere.
std::vector<float> numbers(size_t count, uint32_t seed, float scale) {
  std::vector<float> out(count);
  for (float& x : out) {
    seed = seed * 1664525 + 1013904223;
    x = (static_cast<float>(seed >> 8) / 8388608.0f - 1) * scale;
  }
  return out;
}

// The parameters, in memory that outlives every call. As tensors they go to a device once.
struct Weights {
  Weights() {
    memory.push_back(numbers(kWords * kWidth, 1, 1));
    for (uint32_t seed = 2; seed <= 5; ++seed)
      memory.push_back(numbers(kWidth * kWidth, seed, 0.9f));
    for (const std::vector<float>& values : memory) {
      const int64_t rows = static_cast<int64_t>(values.size()) / kWidth;
      stop_if(Tensor::borrow(ArrayView::of(values, {rows, kWidth}), &tensors.emplace_back()),
              "wrap");
    }
  }
  std::vector<std::vector<float>> memory;
  std::vector<Tensor> tensors;
};

// One sequence: its state, and the step that extends it.
class Sequence {
 public:
  Sequence(const tenon::Program& program, const Weights& weights, const char* device)
      : program_(program), weights_(weights) {
    const std::vector<float> none(kLengthMax * kWidth, 0.0f);
    for (Tensor* state : {&keys_, &values_})
      stop_if(Tensor::copy(ArrayView::of(none, {kLengthMax, kWidth}), state, device), "state");
  }

  int64_t step(int64_t token, int64_t at) {
    const int64_t place[2] = {at, 0};
    std::vector<Input> inputs = {ArrayView{TENON_I64, {1}, &token},
                                 ArrayView{TENON_I64, {2}, place}};
    for (const Tensor& weight : weights_.tensors) inputs.emplace_back(weight);
    inputs.push_back(Input::donate(keys_));
    inputs.push_back(Input::donate(values_));
    int64_t next = 0;
    std::vector<Output> outputs;
    outputs.emplace_back(TENON_I64, std::vector<int64_t>{1}, &next);  // memory of ours
    outputs.push_back(Output::left());
    outputs.push_back(Output::left());
    tenon_program_call_t moved{};
    stop_if(program_.call(inputs, outputs, &moved), "step");
    keys_ = std::move(outputs[1].tensor());
    values_ = std::move(outputs[2].tensor());
    moved_bytes = moved.transferred_bytes;
    return next;
  }
  uint64_t moved_bytes = 0;  // between host and device, by the last step

 private:
  const tenon::Program& program_;
  const Weights& weights_;
  Tensor keys_, values_;
};

std::vector<int64_t> decode(Sequence& sequence, int64_t first) {
  std::vector<int64_t> tokens = {first};
  for (int at = 0; at < kSteps; ++at) tokens.push_back(sequence.step(tokens.back(), at));
  return tokens;
}

// A call in the background, and one that is cancelled before it begins.
void in_the_background(const tenon::Program& program, const Weights& weights) {
  const std::vector<float> none(kLengthMax * kWidth, 0.0f);
  const int64_t token = 3, place[2] = {0, 0};
  std::vector<Input> inputs = {ArrayView{TENON_I64, {1}, &token}, ArrayView{TENON_I64, {2}, place}};
  for (const Tensor& weight : weights.tensors) inputs.emplace_back(weight);
  for (int i = 0; i < 2; ++i) inputs.emplace_back(ArrayView::of(none, {kLengthMax, kWidth}));
  std::vector<Output> outputs(3);
  tenon::Call call(program, inputs, outputs);
  tenon::Operation operation, stopped;
  stop_if(operation.open(), "operation");
  stop_if(call.start(operation), "start");
  stop_if(call.finish(operation), "finish");
  std::printf("in the background: %ld after 3\n", static_cast<long>(outputs[0].as<int64_t>()[0]));
  stop_if(stopped.open(), "operation");
  stopped.cancel();
  stop_if(call.start(stopped), "start");
  if (call.finish(stopped).code() != TENON_CANCELLED) std::exit(1);
  std::printf("cancelled: %s\n", tenon::failure_text().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: decoder MODEL [DEVICE]\n"), 2;
  const char* const device = argc > 2 ? argv[2] : "cpu";
  tenon::Session session;
  tenon::Model model;
  tenon::Program program;
  auto options = tenon::sized<tenon_host_options_t>();
  options.log = log_line;
  stop_if(session.open(&options), "open");
  stop_if(session.load(argv[1], &model), "load");
  stop_if(model.compile({.device = device, .no_fallback = true}, &program), "compile");

  const Weights weights;
  std::vector<std::vector<int64_t>> alone(kThreads), together(kThreads);
  uint64_t moved_bytes = 0;
  for (int t = 0; t < kThreads; ++t) {
    Sequence sequence(program, weights, device);
    alone[t] = decode(sequence, t);
    moved_bytes = sequence.moved_bytes;
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Sequence sequence(program, weights, device);
      together[t] = decode(sequence, t);
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::printf("tokens:");
  for (const int64_t token : alone[1]) std::printf(" %ld", static_cast<long>(token));
  std::printf("\nmoved by a step: %lu bytes\n", static_cast<unsigned long>(moved_bytes));
  std::printf("eight threads: %s\n", alone == together ? "the same tokens" : "OTHER TOKENS");
  in_the_background(program, weights);
  return alone == together ? 0 : 1;
}
