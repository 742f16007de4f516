/* A server of its own: server [ADDRESS], where it listens for other hosts. Serves until SIGTERM. */

#include "services.h"

int main(int argc, char **argv)
{
    fb_server *server = NULL;
    const fb_server_opts opts = { .size = sizeof opts, .name = "of C", .workers = 2, .listen = argc > 1 ? argv[1] : NULL };
    OK(fb_server_create(&opts, &server));
    offer(server);
    OK(fb_server_start(server));
    puts("ready");
    fflush(stdout);
    OK(fb_serve(server));
    OK(fb_server_free(server));
    NOTHING_IN_USE();
    puts("served");
    return 0;
}
