/* Arguments of calls, of SQL and of rows, as Fortran holds them, and calls with them.

       fb_in(x), fb_out(y) ... -> argument -> fb_arg -> fb_call
                                     |          |
                           what differs: texts, logicals
                                     |          |
                                  struct mending: own memory, back into place when the call is complete */

#include "arrays.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What of one argument goes by memory of our own. */
struct mended {
    struct elements elements;
    int back; /* whether it comes back */
    void *own;
};

/* A call's arguments as the library takes them. Of an asynchronous call it lives as long as its future. That of a bag or
   of an outermost group has none itself, but those of its tasks or calls behind it. */
struct mending {
    struct mending *next;
    int64_t index; /* of a task of a bag */
    fb_future *future; /* of a call of a group */
    int count;
    int written; /* whether results are in their places */
    fb_arg *args;
    struct mended *mended;
};

void fbf_drop(struct mending *m)
{
    while (m) {
        struct mending *next = m->next;
        for (int i = 0; i < m->count; i++)
            free(m->mended[i].own);
        fb_future_free(m->future);
        free(m->args);
        free(m->mended);
        free(m);
        m = next;
    }
}

/* A text that comes back has blanks where C has its zero. */
static void text_back(const struct elements *e, const char *text)
{
    size_t length = strnlen(text, (size_t)e->size);
    memcpy(e->data, text, length);
    memset(e->data + length, ' ', (size_t)e->size - length);
}

/* Puts results into their places, once. */
void fbf_finish(struct mending *m)
{
    for (int i = 0; m && !m->written && i < m->count; i++) {
        const struct mended *one = &m->mended[i];
        if (!one->own || !one->back)
            continue;
        if (m->args[i].kind == FB_TEXT)
            text_back(&one->elements, one->own);
        else
            elements_unpack(&one->elements, FB_COLUMN_MAJOR, one->own);
    }
    if (m)
        m->written = 1;
}

/* A text: with a zero at its end, and room for one that comes back. */
static fb_status mend_text(const argument *from, fb_arg *to, struct mended *one)
{
    int goes = from->kind == FB_FILE || from->direction != FB_OUT;
    const char *text = from->given ? from->text : from->elements.data;
    int64_t length = from->given ? from->given - 1 : from->elements.size;
    while (goes && length > 0 && text[length - 1] == ' ')
        length--;
    one->own = calloc((size_t)from->elements.size + 2, 1);
    if (!one->own)
        return refuse(FB_FULL, "there is no memory for a text of %lld bytes", (long long)from->elements.size);
    if (goes)
        memcpy(one->own, text, (size_t)length);
    to->data = one->own;
    to->shape[0] = from->elements.size + 1;
    return FB_OK;
}

/* Elements the library cannot take where they lie: logicals of several bytes. */
static fb_status mend_elements(const argument *from, fb_arg *to, struct mended *one)
{
    const struct elements *e = &from->elements;
    int64_t count = elements_count(e);
    one->own = malloc((size_t)(count * e->size) + 1);
    if (!one->own)
        return refuse(FB_FULL, "there is no memory for a copy of %lld elements", (long long)count);
    if (from->direction != FB_OUT)
        elements_pack(e, FB_COLUMN_MAJOR, one->own);
    to->data = one->own;
    memset(to->strides, 0, sizeof to->strides);
    return FB_OK;
}

/* One argument as the library takes it. */
static fb_status mend(const argument *from, fb_arg *to, struct mended *one)
{
    const struct elements *e = &from->elements;
    memset(to, 0, sizeof *to);
    to->kind = from->kind;
    to->direction = from->direction;
    to->dtype = from->dtype;
    to->reference = from->reference;
    to->length = from->length;
    to->value = from->value;
    to->data = e->data;
    one->elements = *e;
    one->back = from->direction != FB_IN && from->kind != FB_FILE;
    if (from->kind == FB_TEXT || from->kind == FB_FILE)
        return mend_text(from, to, one);
    if (from->kind == FB_RAW)
        to->shape[0] = e->shape[0];
    if (from->kind == FB_RAW && e->shape[0] > 1 && e->stride[0] != 1)
        return refuse(FB_BAD_ARGUMENT, "bytes lie %lld apart; give them in one piece", (long long)e->stride[0]);
    if (from->kind == FB_SCALAR && e->kind == LOGICALS && from->direction != FB_IN)
        return mend_elements(from, to, one);
    if (from->kind != FB_ARRAY)
        return FB_OK;
    if (e->kind == TEXTS)
        return refuse(FB_BAD_ARGUMENT, "texts are arguments one at a time");
    to->ndim = e->ndim;
    to->order = e->ndim > 1 ? FB_COLUMN_MAJOR : FB_ROW_MAJOR;
    memcpy(to->shape, e->shape, sizeof to->shape);
    if (!lies_dense(e))
        memcpy(to->strides, e->stride, sizeof to->strides);
    return e->kind == LOGICALS ? mend_elements(from, to, one) : FB_OK;
}

/* All arguments; NULL with an error noted when one cannot be. */
static fb_status mend_all(const argument *from, int count, struct mending **made)
{
    fb_status status = FB_OK;
    struct mending *m = calloc(1, sizeof *m);
    *made = NULL;
    if (m) {
        m->args = calloc((size_t)count + 1, sizeof *m->args);
        m->mended = calloc((size_t)count + 1, sizeof *m->mended);
    }
    if (!m || !m->args || !m->mended)
        status = refuse(FB_FULL, "there is no memory for %d arguments", count);
    for (int i = 0; i < count && status == FB_OK; i++) {
        m->count = i + 1;
        if (from[i].given == UNFIT)
            status = refuse(FB_BAD_ARGUMENT, "argument %d is not allocated, of assumed size, or of a rank above %d", i + 1, FB_MAX_RANK);
        else if (from[i].given == LONGER && from[i].kind == FB_FILE)
            status = refuse(FB_BAD_ARGUMENT, "argument %d is a path of more than %d bytes; give a shorter one, from the "
                                             "working directory on", i + 1, TEXT_ROOM - 1);
        else if (from[i].given == LONGER)
            status = refuse(FB_BAD_ARGUMENT, "argument %d is a text of more than %d bytes; give a variable with the "
                                             "target attribute to fb_in_text", i + 1, TEXT_ROOM - 1);
        else
            status = mend(&from[i], &m->args[i], &m->mended[i]);
    }
    if (status != FB_OK)
        fbf_drop(m);
    else
        *made = m;
    return status;
}

/* Calls and waits; `timeout` below 0: without limit. */
fb_status fbf_call(fb_client *client, const char *service, const argument *args, int count, double timeout)
{
    struct mending *m = NULL;
    fb_status status = mend_all(args, count, &m);
    if (status == FB_OK && timeout < 0)
        status = fb_call(client, service, m->args, count);
    else if (status == FB_OK)
        status = fb_call_within(client, service, m->args, count, timeout);
    if (status == FB_OK)
        fbf_finish(m);
    fbf_drop(m);
    return status;
}

/* Calls; `mending` is for fbf_finish and fbf_drop. */
fb_status fbf_call_async(fb_client *client, const char *service, const argument *args, int count, int transfer,
                         fb_future **future, struct mending **mending)
{
    fb_status status = mend_all(args, count, mending);
    if (status == FB_OK)
        status = fb_call_async_as(client, service, (*mending)->args, count, transfer, future);
    if (status != FB_OK) {
        fbf_drop(*mending);
        *mending = NULL;
    }
    return status;
}

/* What is kept for the tasks of a bag, or for the calls of a group; NULL when there is no memory. */
struct mending *fbf_list(void)
{
    return calloc(1, sizeof(struct mending));
}

/* Adds a task. What comes back by memory of our own is kept until the task is handed out, in the order of the input. */
fb_status fbf_bag_add(fb_bag *bag, const argument *args, int count, double timeout, int64_t *index, struct mending *tasks)
{
    struct mending *m = NULL;
    int back = 0;
    fb_status status = mend_all(args, count, &m);
    if (status == FB_OK)
        status = fb_bag_add(bag, m->args, count, timeout, index);
    for (int i = 0; i < count && status == FB_OK; i++)
        back |= m->mended[i].own && m->mended[i].back;
    if (!back || !tasks) {
        fbf_drop(m);
        return status;
    }
    m->index = *index;
    while (tasks->next)
        tasks = tasks->next;
    tasks->next = m;
    return status;
}

/* Hands a task out, with what is kept for it in its place. */
fb_status fbf_bag_next(fb_bag *bag, double timeout, int64_t *index, fb_status *outcome, struct mending *tasks)
{
    fb_status status = fb_bag_next(bag, timeout, index, outcome);
    while (status == FB_OK && *index >= 0 && tasks && tasks->next) {
        struct mending *m = tasks->next;
        if (m->index == *index) {
            tasks->next = m->next;
            m->next = NULL;
            if (*outcome == FB_OK)
                fbf_finish(m);
            fbf_drop(m);
            break;
        }
        tasks = m;
    }
    return status;
}

/* Threads may call in one group, and end others within it. */
static pthread_mutex_t of_groups = PTHREAD_MUTEX_INITIALIZER;

/* Calls within a group. What goes and comes by memory of our own is kept until a group has ended. */
fb_status fbf_group_call(fb_group *group, const char *service, const argument *args, int count, struct mending *calls)
{
    struct mending *m = NULL;
    int own = 0;
    fb_status status = mend_all(args, count, &m);
    for (int i = 0; i < count && status == FB_OK; i++)
        own |= m->mended[i].own && calls;
    if (status == FB_OK)
        status = fb_group_call(group, service, m->args, count, own ? &m->future : NULL);
    if (status != FB_OK || !own) {
        fbf_drop(m);
        return status;
    }
    pthread_mutex_lock(&of_groups);
    m->next = calls->next;
    calls->next = m;
    pthread_mutex_unlock(&of_groups);
    return status;
}

/* A group has ended: what was kept for calls that are complete goes into its place. */
void fbf_group_ended(struct mending *calls)
{
    pthread_mutex_lock(&of_groups);
    struct mending **link = calls ? &calls->next : NULL;
    while (link && *link) {
        struct mending *m = *link;
        int done = 0;
        if (fb_probe(m->future, &done) != FB_OK || !done) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        m->next = NULL;
        if (fb_wait(m->future, FB_FOREVER) == FB_OK)
            fbf_finish(m);
        fbf_drop(m);
    }
    pthread_mutex_unlock(&of_groups);
}

/* --- arguments, made --------------------------------------------------------------------------------- */

/* An argument of what a descriptor describes. */
static void from_array(int direction, fb_dtype dtype, int truth, const CFI_cdesc_t *array, argument *made)
{
    memset(made, 0, sizeof *made);
    made->direction = direction;
    made->dtype = dtype;
    fb_status status = elements_of(array, dtype, truth, &made->elements);
    made->kind = made->elements.ndim ? FB_ARRAY : dtype == FB_STR ? FB_TEXT : FB_SCALAR;
    if (status != FB_OK) { /* told when it is used */
        fbf_said();
        made->given = UNFIT;
    }
}

/* A variable or an array in its place. */
void fbf_argument(int direction, fb_dtype dtype, int truth, const CFI_cdesc_t *array, argument *made)
{
    from_array(direction, dtype, truth, array, made);
}

/* The value of a scalar or of a short text. */
void fbf_value(fb_dtype dtype, int truth, const CFI_cdesc_t *scalar, argument *made)
{
    from_array(FB_IN, dtype, truth, scalar, made);
    int64_t size = made->elements.size;
    if (dtype == FB_STR && made->given != UNFIT) {
        while (size > 0 && made->elements.data[size - 1] == ' ')
            size--;
        made->given = size < TEXT_ROOM ? (int)size + 1 : LONGER;
        if (size < TEXT_ROOM)
            memcpy(made->text, made->elements.data, (size_t)size);
        made->elements.size = size;
    } else if (made->given == UNFIT) {
        return;
    } else if (dtype == FB_BOOL) {
        for (int64_t i = 0; i < size; i++)
            made->value.truth |= made->elements.data[i] != 0;
    } else if (made->kind == FB_SCALAR) {
        memcpy(&made->value, made->elements.data, (size_t)size);
    }
    made->elements.data = NULL;
}

/* The path of a file. */
void fbf_file(int direction, const CFI_cdesc_t *path, argument *made)
{
    fbf_value(FB_STR, 1, path, made);
    made->kind = FB_FILE;
    made->direction = direction;
}

/* Bytes: elements of one byte, in one piece. */
void fbf_raw(int direction, const CFI_cdesc_t *array, int64_t *length, argument *made)
{
    from_array(direction, FB_BYTES, 1, array, made);
    made->kind = FB_RAW;
    made->length = length;
}

/* --- rows -------------------------------------------------------------------------------------------- */

/* Values as the library takes them, texts as pointers; of `one` row an array is the whole value. */
static fb_status values_of(const column_values *from, int one, fb_values *to, struct passed *passed)
{
    const argument *a = &from->values;
    const struct elements *e = &a->elements;
    to->column = from->column;
    if (a->given == UNFIT)
        return refuse(FB_BAD_ARGUMENT, "the array for %s is not allocated", from->column);
    if (a->given == LONGER)
        return refuse(FB_BAD_ARGUMENT, "the value of %s is a text of more than %d bytes; give an array of one text", from->column, TEXT_ROOM - 1);
    if (a->dtype != FB_STR) {
        to->array = &passed->array;
        if (a->kind != FB_SCALAR) {
            fb_status status = pass_in(e, a->dtype, passed);
            if (status == FB_OK && !one)
                last_axis_first(passed);
            return status;
        }
        passed->array = (fb_array){.dtype = a->dtype, .data = (void *)(uintptr_t)&a->value};
        return FB_OK;
    }
    int64_t n = a->kind == FB_TEXT ? 1 : e->shape[0];
    const char **texts = calloc((size_t)n + 1, sizeof *texts + (size_t)e->size + 1);
    if (!texts)
        return refuse(FB_FULL, "there is no memory for %lld texts", (long long)n);
    char *at = (char *)(texts + n + 1);
    for (int64_t i = 0; i < n; i++, at += e->size + 1) {
        const char *text = a->kind == FB_TEXT ? a->text : e->data + i * e->stride[0];
        int64_t length = e->size;
        while (length > 0 && text[length - 1] == ' ')
            length--;
        memcpy(at, text, (size_t)length);
        texts[i] = at;
    }
    passed->own = texts;
    to->texts = texts;
    return FB_OK;
}

/* Number of values; a scalar is one. The rows of arrays are along the last axis. */
static int64_t rows_of(const column_values *values)
{
    const struct elements *e = &values->values.elements;
    return values->values.kind == FB_ARRAY ? e->shape[e->ndim - 1] : 1;
}

/* Adds rows (condition NULL and count NULL), or changes those where a condition holds. */
fb_status fbf_table_write(fb_table *table, const column_values *values, int nvalues, int update, const char *condition,
                          const argument *args, int nargs, int64_t *count)
{
    struct mending *m = NULL;
    fb_values *made = calloc((size_t)nvalues + 1, sizeof *made);
    struct passed *passed = calloc((size_t)nvalues + 1, sizeof *passed);
    int64_t nrows = nvalues ? rows_of(&values[0]) : 0;
    fb_status status = made && passed ? mend_all(args, nargs, &m) : refuse(FB_FULL, "there is no memory for %d columns", nvalues);
    for (int i = 0; i < nvalues && status == FB_OK; i++) {
        if (!update && rows_of(&values[i]) != nrows)
            status = refuse(FB_BAD_ARGUMENT, "the column %s has %lld values, %lld are wanted", values[i].column,
                            (long long)rows_of(&values[i]), (long long)nrows);
        else
            status = values_of(&values[i], update, &made[i], &passed[i]);
    }
    if (status == FB_OK && update)
        status = fb_table_update(table, made, nvalues, condition, m->args, nargs, count);
    else if (status == FB_OK)
        status = fb_table_insert(table, nrows, made, nvalues);
    for (int i = 0; i < nvalues && passed; i++)
        pass_free(&passed[i]);
    free(passed);
    free(made);
    fbf_drop(m);
    return status;
}

/* Reads a column of arrays, the rows along the last axis. */
fb_status fbf_rows_array(fb_rows *rows, int column, fb_dtype dtype, int truth, const CFI_cdesc_t *array)
{
    struct elements e;
    struct passed p = {0};
    fb_status status = elements_of(array, dtype, truth, &e);
    if (status == FB_OK)
        status = pass_out(&e, dtype, &p);
    if (status != FB_OK)
        return status;
    last_axis_first(&p);
    status = fb_rows_array(rows, column, &p.array);
    if (status == FB_OK)
        pass_back(&e, &p);
    pass_free(&p);
    return status;
}

/* Deletes rows where a condition holds. */
fb_status fbf_table_delete(fb_table *table, const char *condition, const argument *args, int nargs, int64_t *count)
{
    struct mending *m = NULL;
    fb_status status = mend_all(args, nargs, &m);
    if (status == FB_OK)
        status = fb_table_delete(table, condition, m->args, nargs, count);
    fbf_drop(m);
    return status;
}

/* Selects rows of a table, or of the run by SQL (`table` NULL; `condition` is the query). */
fb_status fbf_select(fb_run *run, fb_table *table, const char *const *columns, int ncolumns, const char *condition,
                     const argument *args, int nargs, fb_rows **rows)
{
    struct mending *m = NULL;
    fb_status status = mend_all(args, nargs, &m);
    if (status == FB_OK && run)
        status = fb_sql(run, condition, m->args, nargs, rows);
    else if (status == FB_OK)
        status = fb_table_select(table, columns, ncolumns, condition, m->args, nargs, rows);
    fbf_drop(m);
    return status;
}
