// As much JSON as a step needs: a cursor over the request, and a buffer for the
// response. The host has checked the request: it is one value, valid UTF-8,
// without lone surrogates; the caller ends it with a NUL byte.
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  const char *at;
} json;

// Reads the start of an array ('[') or an object ('{'); false, and nothing is
// read, when the next value is something else.
bool json_open(json *j, char bracket);

// Whether another element or member follows in what json_open began. Reads the
// comma before it, or the closing bracket.
bool json_more(json *j);

// Reads a string, with its escapes resolved, into memory from malloc. It may
// hold NUL bytes, and one more follows its *n bytes. NULL, and nothing is read,
// when the next value is something else.
char *json_string(json *j, size_t *n);


// Reads the name of a member, and its colon, into memory from malloc.
char *json_name(json *j);

// Reads a whole number; false, and nothing is read, when the next value is
// something else.
bool json_integer(json *j, long *value);

// Reads any value.
void json_skip(json *j);

typedef struct {
  char *data;
  size_t length, capacity;
} buffer;

// Appends text as printf does.
__attribute__((format(printf, 2, 3))) void buffer_print(buffer *b, const char *format, ...);

// Appends n bytes of UTF-8 as a JSON string.
void buffer_quote(buffer *b, const char *text, size_t n);

// Ends the program when an allocation gave NULL; returns it otherwise.
void *must(void *memory);

#endif
