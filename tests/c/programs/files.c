/* Files as arguments, of a server in the same program; the first word of the command line is a folder. */

#include "services.h"

#include <unistd.h>

enum { TASKS = 20 };

/* Copies a file, with a text behind it, and says how long it was. */
static fb_status append(fb_request *request, void *user)
{
    const char *from = NULL, *text = NULL, *to = NULL;
    int64_t length = 0;
    (void)user;
    CHECK(fb_request_str(request, 0, &from) == FB_OK && fb_request_str(request, 1, &text) == FB_OK);
    CHECK(fb_request_str(request, 2, &to) == FB_OK);
    if (strcmp(text, "fail") == 0) return fb_request_fail(request, "it was to fail");
    if (strcmp(text, "forget") == 0) return FB_OK;
    CHECK(fb_request_set_str(request, 2, "elsewhere") == FB_BAD_ARGUMENT);
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    CHECK(in != NULL && out != NULL);
    for (int c; (c = getc(in)) != EOF; ++length) putc(c, out);
    fputs(text, out);
    CHECK(fclose(in) == 0 && fclose(out) == 0);
    return fb_request_set_i64(request, 3, length);
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(name, "wb");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int has(const char *name, const char *text)
{
    char found[100] = "";
    FILE *file = fopen(name, "rb");
    if (file == NULL) return 0;
    found[fread(found, 1, sizeof found - 1, file)] = 0;
    fclose(file);
    return strcmp(found, text) == 0;
}

static void one_by_one(fb_client *client)
{
    int64_t length = -1;
    put("in", "mesh ");
    OK(FB_CALL(client, "append", FB_IN_FILE("in"), FB_IN_STR("here"), FB_OUT_FILE("out"), FB_OUT_I64(&length)));
    CHECK(length == 5 && has("out", "mesh here"));
    fb_future *future = NULL;
    char path[8] = "in", to[8] = "later";
    OK(fb_call_async(client, "append",
                     (const fb_arg[]){ FB_IN_FILE(path), FB_IN_STR("later"), FB_OUT_FILE(to), FB_OUT_I64(&length) }, 4,
                     &future));
    fb_future *second = NULL;
    FAILS(FB_BAD_ARGUMENT, "which is under way",
          fb_call_async(client, "append",
                        (const fb_arg[]){ FB_IN_FILE(path), FB_IN_STR("x"), FB_OUT_FILE("./later"), FB_OUT_I64(&length) }, 4,
                        &second));
    OK(fb_wait(future, FB_FOREVER));
    OK(fb_future_free(future));
    CHECK(has("later", "mesh later"));

    FAILS(FB_REMOTE_ERROR, "it was to fail",
          FB_CALL(client, "append", FB_IN_FILE("in"), FB_IN_STR("fail"), FB_OUT_FILE("out"), FB_OUT_I64(&length)));
    CHECK(has("out", "mesh here"));
    FAILS(FB_REMOTE_ERROR, "has not written the file",
          FB_CALL(client, "append", FB_IN_FILE("in"), FB_IN_STR("forget"), FB_OUT_FILE("out"), FB_OUT_I64(&length)));
    FAILS(FB_NOT_FOUND, "nothing; check the path",
          FB_CALL(client, "append", FB_IN_FILE("nothing"), FB_IN_STR(""), FB_OUT_FILE("out"), FB_OUT_I64(&length)));
    FAILS(FB_BAD_ARGUMENT, "FB_IN_FILE",
          FB_CALL(client, "append", FB_IN_STR("in"), FB_IN_STR(""), FB_OUT_FILE("out"), FB_OUT_I64(&length)));
    FAILS(FB_BAD_ARGUMENT, "where str is wanted",
          FB_CALL(client, "append", FB_IN_FILE("in"), FB_IN_FILE("in"), FB_OUT_FILE("out"), FB_OUT_I64(&length)));
    FAILS(FB_BAD_ARGUMENT, "its direction is out",
          FB_CALL(client, "append", FB_IN_FILE("in"), FB_IN_STR(""), FB_IN_FILE("out"), FB_OUT_I64(&length)));
    FAILS(FB_BAD_ARGUMENT, "NULL",
          FB_CALL(client, "append", FB_IN_FILE(NULL), FB_IN_STR(""), FB_OUT_FILE("out"), FB_OUT_I64(&length)));
}

static void together(fb_client *client)
{
    int64_t lengths[TASKS], index = -1;
    fb_status outcome = FB_OK;
    char name[32], text[32];
    fb_bag *bag = NULL;
    fb_group *group = NULL;
    int64_t first = -1;
    OK(fb_bag_open(client, "append", NULL, &bag));
    for (int i = 0; i < TASKS; ++i) {
        snprintf(name, sizeof name, "task%d", i);
        snprintf(text, sizeof text, "%d", i);
        const fb_arg args[] = { FB_IN_FILE("in"), FB_IN_STR(text), FB_OUT_FILE(name), FB_OUT_I64(&lengths[i]) };
        OK(fb_bag_add(bag, args, 4, FB_FOREVER, NULL));
    }
    const fb_arg again[] = { FB_IN_FILE("in"), FB_IN_STR("x"), FB_OUT_FILE("task0"), FB_OUT_I64(&first) };
    FAILS(FB_BAD_ARGUMENT, "task 0 of a map of append", fb_bag_add(bag, again, 4, FB_FOREVER, NULL));
    OK(fb_bag_end(bag));
    for (int i = 0; i < TASKS; ++i) {
        OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        CHECK(index == i && outcome == FB_OK && lengths[i] == 5);
        snprintf(name, sizeof name, "task%d", i);
        snprintf(text, sizeof text, "mesh %d", i);
        CHECK(has(name, text));
    }
    OK(fb_bag_free(bag));
    OK(fb_group_begin(client, NULL, &group));
    for (int i = 0; i < 3; ++i) {
        snprintf(name, sizeof name, "one%d", i);
        const fb_arg args[] = { FB_IN_FILE("in"), FB_IN_STR("!"), FB_OUT_FILE(name), FB_OUT_I64(&lengths[i]) };
        OK(fb_group_call(group, "append", args, 4, NULL));
    }
    OK(fb_group_end(group, FB_FOREVER, &first));
    CHECK(has("one0", "mesh !") && has("one2", "mesh !"));
}

int main(int argc, char **argv)
{
    fb_server *server = NULL;
    fb_client *client = NULL;
    fb_server_opts opts = { .size = sizeof opts, .scratch = "scratch:1MiB" };
    CHECK(argc > 1 && chdir(argv[1]) == 0);
    const fb_server_opts wrong = { .size = sizeof wrong, .scratch = "scratch:much" };
    FAILS(FB_BAD_ARGUMENT, "much", fb_server_create(&wrong, &server));
    OK(fb_server_create(&opts, &server));
    OK(fb_service_register(server, "append(in a:file, in text:str, out b:file, out length:i64)", append, NULL));
    OK(fb_server_start(server));
    OK(fb_connect(NULL, &client));
    one_by_one(client);
    together(client);
    OK(fb_disconnect(client));
    OK(fb_server_free(server));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
