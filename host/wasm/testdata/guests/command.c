// The smallest command: upper-cases input.text and counts its words.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  size_t cap = 65536, n = 0, r;
  char *b = malloc(cap + 1);
  while ((r = fread(b + n, 1, cap - n, stdin)) > 0)
    if ((n += r) == cap) b = realloc(b, (cap *= 2) + 1);
  b[n] = 0;
  char *t = strstr(b, "\"text\":\"");
  if (!t) {
    puts("{\"error\":{\"class\":\"invalid_input\",\"message\":\"text is missing\",\"path\":\"/text\"}}");
    return 0;
  }
  t += 8;
  *strchr(t, '"') = 0;
  int words = 0, in = 0;
  for (char *p = t; *p; p++) {
    if (isspace((unsigned char)*p)) in = 0;
    else if (!in) in = 1, words++;
    *p = toupper((unsigned char)*p);
  }
  printf("{\"output\":{\"upper\":\"%s\",\"words\":%d}}\n", t, words);
  return 0;
}
