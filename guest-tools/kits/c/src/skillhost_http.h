// HTTP requests. The host sends those that the operator's grant for the tool allows, and denies all
// others. A component that calls no function of this file imports nothing for it.
//
//     sh_http_header headers[] = { {"authorization", token}, {0} };
//     sh_http_response response;
//     if (!sh_http_get("https://api.example.org/v1/forecast", headers, &response))
//         return sh_http_fail(answer, &response);
//     return sh_answer_text(answer, response.body, response.size);
//
// A variable that holds a secret has a placeholder in the sandbox. The host puts the secret in its
// place, in the header and for the host names of the grant. Redirects are not followed: a tool reads
// the header `location`.

#ifndef SKILLHOST_HTTP_H
#define SKILLHOST_HTTP_H

#include "skillhost_kit.h"

// The default maximum size of a response's body in bytes.
#define SH_HTTP_MAX_BODY (16 << 20)

// The kind of an error.
typedef enum {
    SH_HTTP_DENIED,      // the operator's grant does not allow the request
    SH_HTTP_NAME,        // the host name has no address
    SH_HTTP_CONNECTION,  // no connection, or it ended early
    SH_HTTP_TIMEOUT,     // no answer in time
    SH_HTTP_CERTIFICATE, // the server's certificate is not valid
    SH_HTTP_PROTOCOL,    // an invalid address, request or response
    SH_HTTP_LIMIT,       // more requests or bytes than a call, or the body, may have
    SH_HTTP_OTHER,       // another error
} sh_http_kind;

// A header. A list of headers ends with a header without a name.
typedef struct {
    const char *name, *value;
} sh_http_header;

typedef struct {
    const char *method SH_REQUIRED;
    const char *url SH_REQUIRED;
    const sh_http_header *headers; // NULL for none
    const char *body;              // NULL for none
    size_t body_size;
    // The maximum time to connect, to wait for the response, and between two chunks of its body, in
    // milliseconds; 0 for the host's default.
    unsigned timeout;
    size_t max_body; // the maximum size of the response's body; 0 for SH_HTTP_MAX_BODY
    // Takes the chunks of the response's body instead of `body` in the response, which has any size
    // then. Ends the request if it returns false. Reads the status and the headers first.
    bool (*take)(void *context, const char *bytes, size_t size);
    void *context;
} sh_http_request;

typedef struct {
    unsigned status;               // the status, such as 200; 0 after an error
    const sh_http_header *headers; // the headers; their names are in lower case
    char *body;                    // the body, and a NUL after it; NULL if `take` got it
    size_t size;                   // the size of the body
    sh_http_kind kind;             // the kind of the error
    const char *error;             // the message of the error; NULL if there is none
} sh_http_response;

// Sends a GET request, and reads the response. `headers` may be NULL. Returns false after an error.
bool sh_http_get(const char *url, const sh_http_header *headers, sh_http_response *response);
// Sends a POST request with a body of JSON, and reads the response. Otherwise as sh_http_get.
bool sh_http_post(const char *url, const sh_http_header *headers, const char *json,
                  sh_http_response *response);
// Sends a request, and reads the response. Returns false after an error.
bool sh_http_send(const sh_http_request *request, sh_http_response *response);
// Returns the first value of a header, or NULL. `name` is in lower case.
const char *sh_http_header_value(const sh_http_response *response, const char *name);
// Returns the name of a kind of error, which is the same in all languages.
const char *sh_http_kind_name(sh_http_kind kind);
// Fails the call with the message of an error. Returns false.
bool sh_http_fail(sh_answer *answer, const sh_http_response *response);
// Appends a text as a part of an address, percent-encoded.
void sh_http_encode(sh_buffer *url, const char *text);

#endif
