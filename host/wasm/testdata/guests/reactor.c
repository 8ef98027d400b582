// The smallest reactor: the same step as command.c, with its manifest embedded.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMPORT(name) __attribute__((import_module("engine_v1"), import_name(name)))
IMPORT("read") void host_read(char *p);
IMPORT("write") void host_write(const char *p, int n);

__asm__(".section .custom_section.engine.step,\"\",@\n"
        ".ascii \"{\\\"abi\\\":1,\\\"name\\\":\\\"upper\\\",\\\"steps\\\":{\\\"upper\\\":{\\\"effects\\\":\\\"none\\\",\\\"examples\\\":[{\\\"input\\\":{\\\"text\\\":\\\"a bc\\\"},\\\"output\\\":{\\\"upper\\\":\\\"A BC\\\",\\\"words\\\":2}}]}}}\"\n");

__attribute__((export_name("step_run"))) void step_run(int n) {
  char *b = malloc(n + 1);
  host_read(b);
  b[n] = 0;
  char *t = strstr(b, "\"text\":\"");
  if (!t) {
    const char *m = "{\"error\":{\"class\":\"invalid_input\",\"message\":\"text is missing\",\"path\":\"/text\"}}";
    host_write(m, strlen(m));
    return;
  }
  t += 8;
  *strchr(t, '"') = 0;
  int words = 0, in = 0;
  for (char *p = t; *p; p++) {
    if (isspace((unsigned char)*p)) in = 0;
    else if (!in) in = 1, words++;
    *p = toupper((unsigned char)*p);
  }
  char *o = malloc(strlen(t) + 64);
  host_write(o, sprintf(o, "{\"output\":{\"upper\":\"%s\",\"words\":%d}}", t, words));
  free(o);
  free(b);
}
