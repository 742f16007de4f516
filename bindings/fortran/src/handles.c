/* Which variables of the program hold which thing of the library.

   A Fortran handle is a variable that the compiler copies, and ends at the end of its scope, by calling us.
   Not all compilers do so for every copy: gfortran before 13 ends copies that it never made known, or never
   filled. So a thing has a box that counts the addresses of its holders, and a holder is known by its address
   alone, whatever stands there: an end that comes from elsewhere is nothing. The thing is given back when its
   last holder goes, or before, by its own procedure.

   Boxes are used again and never freed; a serial tells a handle whose box has a new content. */

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { BUCKETS = 4096 };

struct box {
    uint64_t serial;
    void *handle; /* the thing in the library, */
    int kind;     /* and what it is */
    int64_t holders;
    void *attached; /* what Fortran keeps with the thing */
    void *mending;  /* arguments of a call under way */
    struct box *next; /* of those that are free */
};

struct holder {
    const void *address;
    struct box *box;
    struct holder *next;
};

/* What a box held when it was given up; the twin of given_up in forebay_base.f90. */
struct given_up {
    void *handle, *attached, *mending;
    int kind;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct holder *buckets[BUCKETS];
static struct box *unused;
static uint64_t serials;

/* The link that leads to a holder, or to the end of its bucket. */
static struct holder **find(const void *address)
{
    struct holder **link = &buckets[((uintptr_t)address >> 3) % BUCKETS];
    while (*link && (*link)->address != address)
        link = &(*link)->next;
    return link;
}

static int add(struct box *box, const void *address)
{
    struct holder *made = malloc(sizeof *made), **link = find(address);
    if (!made)
        return 0;
    *made = (struct holder){address, box, *link};
    *link = made;
    box->holders++;
    return 1;
}

/* A box for a new thing, held by one variable that holds nothing; NULL when there is no memory. */
struct box *fbf_box(const void *holder, void *handle, int kind, uint64_t *serial)
{
    pthread_mutex_lock(&lock);
    struct box *box = unused;
    if (box)
        unused = box->next;
    else
        box = calloc(1, sizeof *box);
    if (box) {
        *box = (struct box){.serial = ++serials, .handle = handle, .kind = kind};
        *serial = box->serial;
        add(box, holder); /* without memory for it the thing stays until the program ends */
    }
    pthread_mutex_unlock(&lock);
    return box;
}

/* One more variable, which holds nothing, holds what is in the box. */
void fbf_share(struct box *box, uint64_t serial, const void *holder)
{
    pthread_mutex_lock(&lock);
    if (box && box->serial == serial)
        add(box, holder);
    pthread_mutex_unlock(&lock);
}

/* A variable holds nothing any more. 1: it was the last holder of a thing, whose box is free now. */
int fbf_let_go(const void *holder, struct given_up *up)
{
    int last = 0;
    pthread_mutex_lock(&lock);
    struct holder **link = find(holder), *gone = *link;
    if (gone) {
        struct box *box = gone->box;
        *link = gone->next;
        free(gone);
        last = --box->holders == 0;
        if (last) {
            *up = (struct given_up){box->handle, box->attached, box->mending, box->kind};
            box->serial = 0;
            box->next = unused;
            unused = box;
        }
    }
    pthread_mutex_unlock(&lock);
    return last;
}

/* What is kept with a thing; NULL when there is nothing. */
void *fbf_attached(struct box *box, uint64_t serial)
{
    return box && box->serial == serial ? box->attached : NULL;
}

void *fbf_mending(struct box *box, uint64_t serial)
{
    return box && box->serial == serial ? box->mending : NULL;
}

/* Keeps something with a thing. */
void fbf_keep(struct box *box, uint64_t serial, void *attached, void *mending)
{
    pthread_mutex_lock(&lock);
    if (box && box->serial == serial && attached)
        box->attached = attached;
    if (box && box->serial == serial && mending)
        box->mending = mending;
    pthread_mutex_unlock(&lock);
}
