/* The ranks of the program, by MPI; with -DNO_MPI there is one and nothing of MPI is needed.

   Only the example knows MPI. Forebay learns rank and number of ranks from the launcher's
   environment and never touches MPI_COMM_WORLD. */

#ifndef TWO_STREAM_RANKS_H
#define TWO_STREAM_RANKS_H

#include <stdint.h>
#include <stdlib.h>

static struct {
    int rank, size;
} ranks = {0, 1};

#ifdef NO_MPI

static void ranks_begin(int *argc, char ***argv) { (void)argc, (void)argv; }
static void ranks_sum(double *values, int64_t n) { (void)values, (void)n; }
static void ranks_tell(double *values, int64_t n) { (void)values, (void)n; }
static void ranks_end(void) {}
static void ranks_abort(int status) { exit(status); }

#else

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* Waits, and lets others have the core meanwhile: MPI's own waiting spins, and where there are more
   ranks than cores, or a service is to be called, nobody else would come to the turn. */
static void ranks_wait(MPI_Request *request)
{
    int done = 0;
    while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        sched_yield();
}

static void ranks_begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.size);
}

/* Adds values up over all ranks, in place. */
static void ranks_sum(double *values, int64_t n)
{
    MPI_Request sum;
    MPI_Iallreduce(MPI_IN_PLACE, values, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &sum);
    ranks_wait(&sum);
}

/* All ranks get the values of rank 0. */
static void ranks_tell(double *values, int64_t n)
{
    MPI_Request told;
    MPI_Ibcast(values, (int)n, MPI_DOUBLE, 0, MPI_COMM_WORLD, &told);
    ranks_wait(&told);
}

static void ranks_end(void) { MPI_Finalize(); }

/* Ends all ranks, whatever the others are waiting for. A launcher may drop what it has not read of
   our last words by then, so wait until it has, two seconds at most. */
static void ranks_abort(int status)
{
    int unread = 0;
    fflush(stderr);
    for (int ms = 0; ms < 2000 && ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    MPI_Abort(MPI_COMM_WORLD, status);
    exit(status);
}

#endif
#endif
