/* void_mpi SECONDS, on two ranks: a message without content to the other one and back; it is no call, but what a call is made of. */
#include <mpi.h>

#include "void.h"

enum { GO = 1, OVER = 2 };

static MPI_Request going[UNDER_WAY], coming[UNDER_WAY];

static void call(void) {
    MPI_Send(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void send(int i) {
    MPI_Irecv(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD, &coming[i]);
    MPI_Isend(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD, &going[i]);
}
static void take(int i) {
    MPI_Wait(&going[i], MPI_STATUS_IGNORE);
    MPI_Wait(&coming[i], MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    check(argc > 1, "reading the arguments");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    half(rank);
    if (rank == 0) {
        measure_void(&(Way){call, send, take}, atof(argv[1]));
        MPI_Send(NULL, 0, MPI_BYTE, 1, OVER, MPI_COMM_WORLD);
    }
    for (MPI_Status status = {.MPI_TAG = GO}; rank == 1 && status.MPI_TAG == GO;) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == GO) MPI_Send(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
