#include "json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *must(void *memory) {
  if (!memory) {
    fputs("out of memory\n", stderr);
    exit(1);
  }
  return memory;
}

static char peek(json *j) {
  j->at += strspn(j->at, " \t\r\n");
  return *j->at;
}

bool json_open(json *j, char bracket) {
  if (peek(j) != bracket) return false;
  j->at++;
  return true;
}

bool json_more(json *j) {
  switch (peek(j)) {
  case ']':
  case '}':
    j->at++;
    return false;
  case ',':
    j->at++;
  }
  return true;
}

static unsigned hex4(const char *digits) {
  char text[5] = {digits[0], digits[1], digits[2], digits[3], 0};
  return strtoul(text, NULL, 16);
}

// Writes a code point as UTF-8 and returns where it ends.
static char *encode(char *out, unsigned c) {
  if (c < 0x80) {
    *out++ = c;
  } else if (c < 0x800) {
    *out++ = 0xC0 | c >> 6;
    *out++ = 0x80 | (c & 0x3F);
  } else if (c < 0x10000) {
    *out++ = 0xE0 | c >> 12;
    *out++ = 0x80 | (c >> 6 & 0x3F);
    *out++ = 0x80 | (c & 0x3F);
  } else {
    *out++ = 0xF0 | c >> 18;
    *out++ = 0x80 | (c >> 12 & 0x3F);
    *out++ = 0x80 | (c >> 6 & 0x3F);
    *out++ = 0x80 | (c & 0x3F);
  }
  return out;
}

char *json_string(json *j, size_t *n) {
  if (peek(j) != '"') return NULL;
  const char *in = j->at + 1, *end = in;
  while (*end != '"') end += *end == '\\' ? 2 : 1;
  // An escape is never shorter than what it stands for.
  char *text = must(malloc(end - in + 1)), *out = text;
  while (in < end) {
    if (*in != '\\') {
      *out++ = *in++;
      continue;
    }
    in += 2;
    switch (in[-1]) {
    case 'b': *out++ = '\b'; break;
    case 'f': *out++ = '\f'; break;
    case 'n': *out++ = '\n'; break;
    case 'r': *out++ = '\r'; break;
    case 't': *out++ = '\t'; break;
    case 'u': {
      unsigned c = hex4(in);
      in += 4;
      if (c >= 0xD800 && c < 0xDC00) { // the first half of a pair
        c = 0x10000 + ((c - 0xD800) << 10) + (hex4(in + 2) - 0xDC00);
        in += 6;
      }
      out = encode(out, c);
      break;
    }
    default: *out++ = in[-1]; // a quote or a slash of either kind
    }
  }
  *out = 0;
  *n = out - text;
  j->at = end + 1;
  return text;
}

char *json_name(json *j) {
  size_t n;
  char *name = json_string(j, &n);
  if (peek(j) == ':') j->at++;
  return name;
}

bool json_integer(json *j, long *value) {
  char first = peek(j), *end;
  if (first != '-' && (first < '0' || first > '9')) return false;
  long v = strtol(j->at, &end, 10);
  if (*end == '.' || *end == 'e' || *end == 'E') return false;
  *value = v;
  j->at = end;
  return true;
}

void json_skip(json *j) {
  int depth = 0;
  do {
    size_t n;
    char c = peek(j);
    if (c == '"') {
      free(json_string(j, &n));
    } else if (c == '[' || c == '{') {
      j->at++;
      depth++;
    } else if (c == ']' || c == '}') {
      j->at++;
      depth--;
    } else if (c == ',' || c == ':') {
      j->at++;
    } else { // a number, true, false, null
      j->at += strcspn(j->at, ",]} \t\r\n");
    }
  } while (depth > 0);
}

static void reserve(buffer *b, size_t more) {
  if (b->length + more <= b->capacity) return;
  b->capacity = 2 * b->capacity + more;
  b->data = must(realloc(b->data, b->capacity));
}

void buffer_print(buffer *b, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  reserve(b, n + 1); // vsnprintf also writes a NUL
  va_start(args, format);
  vsnprintf(b->data + b->length, n + 1, format, args);
  va_end(args);
  b->length += n;
}

void buffer_quote(buffer *b, const char *text, size_t n) {
  reserve(b, 6 * n + 2); // every byte may become \u00XX
  char *out = b->data + b->length;
  *out++ = '"';
  for (size_t i = 0; i < n; i++) {
    unsigned char c = text[i];
    if (c < 0x20) {
      static const char hex[] = "0123456789abcdef";
      memcpy(out, "\\u00", 4);
      out[4] = hex[c >> 4];
      out[5] = hex[c & 15];
      out += 6;
      continue;
    }
    if (c == '"' || c == '\\') *out++ = '\\';
    *out++ = c;
  }
  *out++ = '"';
  b->length = out - b->data;
}
