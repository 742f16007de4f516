/* void_grpc SOCKET SECONDS: gRPC over a socket of the system: the server by call-backs, as its guide advises; calls that
 * are waited for by the blocking stub, many by a completion queue. */
#include <chrono>
#include <memory>

#include <grpcpp/grpcpp.h>

#include "void.grpc.pb.h"
#include "void.h"

namespace {

struct Service final : Calls::CallbackService {
    grpc::ServerUnaryReactor *Void(grpc::CallbackServerContext *context, const Nothing *, Nothing *) override {
        auto *reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        return reactor;
    }
};

void serve(const char *where) {
    Service service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(where, grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    auto server = builder.BuildAndStart();
    check(server != nullptr, "listening");
    server->Wait();
}

struct UnderWay {
    grpc::ClientContext context;
    Nothing request, reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Nothing>> reader;
};

std::unique_ptr<Calls::Stub> stub;
/* Made behind the fork: it starts threads. */
std::unique_ptr<grpc::CompletionQueue> queue;

void call() {
    grpc::ClientContext context;
    Nothing request, reply;
    check(stub->Void(&context, request, &reply).ok(), "a call");
}

void send(int) {
    auto *one = new UnderWay;
    one->reader = stub->AsyncVoid(&one->context, one->request, queue.get());
    one->reader->Finish(&one->reply, &one->status, one);
}

/* Whichever is complete: all of them are taken. */
void take(int) {
    void *tag;
    bool good;
    check(queue->Next(&tag, &good) && good, "taking an answer");
    std::unique_ptr<UnderWay> one(static_cast<UnderWay *>(tag));
    check(one->status.ok(), "a call");
}

} // namespace

int main(int argc, char **argv) {
    check(argc > 2, "reading the arguments");
    pid_t server = beside(serve, argv[1]);
    auto channel = grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials());
    check(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30)), "connecting");
    queue = std::make_unique<grpc::CompletionQueue>();
    stub = Calls::NewStub(channel);
    Way way{call, send, take};
    measure_void(&way, atof(argv[2]));
    end(server);
    return 0;
}
