/* What BLAS and LAPACK call when an argument is wrong, in a library of its own that is loaded before theirs: the dynamic
   linker finds it first. It notes what it is told, for the thread that called, and returns. Theirs prints, or ends the
   process. */

static __thread struct {
    int is_told, info;
    char name[32];
} note;

static void tell(const char *name, int length, int info)
{
    int i;
    for (i = 0; i < 32; i++) note.name[i] = 0;
    for (i = 0; i < 32 && i < length && name[i]; i++) note.name[i] = name[i];
    note.info = info;
    note.is_told = 1;
}

/* As Fortran calls it. The length is a size_t or an int, by who calls: its lower half is the same. */
void xerbla_(const char *name, const int *info, int length) { tell(name, length, *info); }

/* The same of libraries with integers of 64 bits. */
void xerbla_64_(const char *name, const long long *info, int length) { tell(name, length, (int)*info); }

/* The same of CBLAS. */
void cblas_xerbla(int info, const char *name, const char *form, ...)
{
    (void)form;
    tell(name, 32, info);
}

/* Gives what was told to this thread since the last time, and says whether anything was. */
int forebay_take_note(int *info, char *name)
{
    int i, is_told = note.is_told;
    if (!is_told) return 0;
    *info = note.info;
    for (i = 0; i < 32; i++) name[i] = note.name[i];
    note.is_told = 0;
    return 1;
}
