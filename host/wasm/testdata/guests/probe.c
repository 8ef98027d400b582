// A reactor that does what the request names, to see how the host judges it.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define IMPORT(name) __attribute__((import_module("engine_v1"), import_name(name)))
IMPORT("read") void host_read(char *p);
IMPORT("write") void host_write(const char *p, int n);
IMPORT("call") int host_call(const char *p, int n);

static int calls(int n) { return n ? calls(n - 1) * 3 + n : 1; }
static int forever(int n) { return n == 0x7fffffff ? 0 : forever(n + 1) * 3 + n; }
static void say(const char *s) { host_write(s, strlen(s)); }
static char big[1 << 20];

__attribute__((export_name("step_run"))) void step_run(int n) {
  char *b = malloc(n + 1), out[4096];
  host_read(b);
  b[n] = 0;
#define DO(name) if (strstr(b, "\"do\":\"" name "\""))
  DO("spin") for (volatile int i = 0;; i++);
  DO("recurse") sprintf(out, "{\"output\":%d}", forever(0)), say(out);
  DO("calls") sprintf(out, "{\"output\":%d}", calls(1000)), say(out);
  DO("sleep") sleep(1000), say("{\"output\":\"slept\"}");
  DO("fill") for (;;) { char *p = malloc(48 << 20); memset(p, 1, 48 << 20); asm volatile("" ::"r"(p) : "memory"); free(p); }
  DO("memory") for (int i = 0;; i++) { char *p = malloc(1 << 20); if (!p) abort(); *(volatile char *)p = i; }
  DO("trap") __builtin_trap();
  DO("bounds") *(volatile int *)0x7fffffff = 1;
  DO("exit75") exit(75);
  DO("exit3") fprintf(stderr, "line one\nline two"), exit(3);
  DO("exit64 with an error") say("{\"error\":{\"class\":\"quota\",\"usage\":[]},\"usage\":[{\"model\":\"m\",\"input_tokens\":5}]}"), exit(64);
  DO("exit3 with an output") say("{\"output\":1}"), exit(3);
  DO("nothing") return;
  DO("not json") say("hello");
  DO("write outside") host_write((char *)0x7ffffff0, 100);
  DO("write too much") host_write(0, 0x7fffffff);
  DO("stderr flood") for (;;) { fputs("again and again\n", stderr); }
  DO("random and time") {
    unsigned char r[8];
    struct timespec t, m;
    getentropy(r, 8);
    clock_gettime(CLOCK_REALTIME, &t);
    clock_gettime(CLOCK_MONOTONIC, &m);
    sprintf(out, "{\"output\":\"%02x%02x%02x%02x %lld.%09ld %lld\"}", r[0], r[1], r[2], r[3], (long long)t.tv_sec, t.tv_nsec, (long long)m.tv_sec);
    say(out);
  }
  DO("call") {
    const char *op = "{\"op\":\"emit\",\"chunk\":\"x\"}";
    int k = host_call(op, strlen(op));
    char *r = malloc(k + 1);
    host_read(r);
    r[k] = 0;
    sprintf(out, "{\"output\":%s}", r);
    say(out);
  }
  DO("calls without end") for (;;) { const char *op = "{\"op\":\"emit\",\"chunk\":\"x\"}"; host_call(op, strlen(op)); }
  DO("respond") {
    const char *op = "{\"op\":\"respond\",\"response\":{\"output\":\"responded\"}}";
    host_call(op, strlen(op));
  }
  DO("files") {
    char *at = out + sprintf(out, "{\"output\":\"");
    const char *paths[] = {"/engine/call", "engine/call", "/etc/passwd", "/new", "/engine/other", "/../engine/call"};
    for (int i = 0; i < 6; i++) {
      int fd = open(paths[i], i == 3 ? O_RDWR | O_CREAT : O_RDWR, 0666);
      at += sprintf(at, "%d ", fd >= 0);
    }
    int fd = open("/engine/call", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0666);
    at += sprintf(at, "%d ", (int)read(fd, big, 10));               // no request
    at += sprintf(at, "%d ", (int)write(fd, "", 0));                // nothing
    at += sprintf(at, "%d ", (int)read(fd, big, 10));               // still none
    at += sprintf(at, "%d %d ", (int)lseek(fd, 0, SEEK_SET), (int)lseek(fd, 1, SEEK_SET));
    write(fd, "{\"op\":\"emit\",", 13);
    write(fd, "\"chunk\":\"f\"}", 12);
    int k = read(fd, big, 4);
    k += read(fd, big + k, sizeof big - k);
    at += sprintf(at, "%d %d ", k, (int)read(fd, big, 10));         // the reply, then its end
    write(fd, "{\"op\":\"emit\",\"chunk\":\"closed\"}", 30);          // runs when closed
    close(fd);
    sprintf(at, "\"}");
    say(out);
  }
}
