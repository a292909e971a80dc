// Implements skillhost_http.h with the bindings that `skillhost build` generates from wit/.

#include "skillhost_http.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool_component.h"

// The maximum size of a chunk of a response's body.
#define CHUNK_BYTES (64 << 10)
// The maximum size of an error's message, with its NUL.
#define MAX_MESSAGE_BYTES 1024

typedef wasi_http_types_error_code_t error_code;

static const struct {
    const char *name, *reason;
} KINDS[] = {
    [SH_HTTP_DENIED] = {"denied", "network access is not granted for this address"},
    [SH_HTTP_NAME] = {"name", "the host name has no address"},
    [SH_HTTP_CONNECTION] = {"connection", "cannot connect, or the connection ended early"},
    [SH_HTTP_TIMEOUT] = {"timeout", "no answer in time"},
    [SH_HTTP_CERTIFICATE] = {"certificate", "the server's certificate is not valid"},
    [SH_HTTP_PROTOCOL] = {"protocol", "invalid address, request or response"},
    [SH_HTTP_LIMIT] = {"limit", "more requests or bytes than a call may have"},
    [SH_HTTP_OTHER] = {"other", "the request failed"},
};

static sh_http_kind kind_of(const error_code *code) {
    switch (code->tag) {
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_DENIED:
    case WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_IP_PROHIBITED:
        return SH_HTTP_DENIED;
    case WASI_HTTP_TYPES_ERROR_CODE_DNS_TIMEOUT:
    case WASI_HTTP_TYPES_ERROR_CODE_DNS_ERROR:
    case WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_NOT_FOUND:
        return SH_HTTP_NAME;
    case WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_UNAVAILABLE:
    case WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_IP_UNROUTABLE:
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_REFUSED:
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_TERMINATED:
        return SH_HTTP_CONNECTION;
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_TIMEOUT:
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_READ_TIMEOUT:
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_WRITE_TIMEOUT:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_TIMEOUT:
        return SH_HTTP_TIMEOUT;
    case WASI_HTTP_TYPES_ERROR_CODE_TLS_PROTOCOL_ERROR:
    case WASI_HTTP_TYPES_ERROR_CODE_TLS_CERTIFICATE_ERROR:
    case WASI_HTTP_TYPES_ERROR_CODE_TLS_ALERT_RECEIVED:
        return SH_HTTP_CERTIFICATE;
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_LIMIT_REACHED:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_BODY_SIZE:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_URI_TOO_LONG:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_HEADER_SECTION_SIZE:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_HEADER_SIZE:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_TRAILER_SECTION_SIZE:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_TRAILER_SIZE:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_HEADER_SECTION_SIZE:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_HEADER_SIZE:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_BODY_SIZE:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_TRAILER_SECTION_SIZE:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_TRAILER_SIZE:
        return SH_HTTP_LIMIT;
    case WASI_HTTP_TYPES_ERROR_CODE_LOOP_DETECTED:
    case WASI_HTTP_TYPES_ERROR_CODE_CONFIGURATION_ERROR:
    case WASI_HTTP_TYPES_ERROR_CODE_INTERNAL_ERROR:
        return SH_HTTP_OTHER;
    default:
        return SH_HTTP_PROTOCOL;
    }
}

// Sets the error of a response. Returns false.
static bool fail(const sh_http_request *request, sh_http_response *response, sh_http_kind kind) {
    sh_buffer message = {0};
    char text[MAX_MESSAGE_BYTES];
    // The parameters may be long.
    int address = (int)strcspn(request->url, "?#");
    int length = snprintf(text, sizeof text, "%s %.*s: %s", request->method, address, request->url,
                          KINDS[kind].reason);
    if (length < 0) length = 0;
    if ((size_t)length >= sizeof text) length = sizeof text - 1;
    sh_append(&message, text, (size_t)length);
    sh_append(&message, "", 1);
    *response = (sh_http_response){.kind = kind, .error = message.bytes};
    return false;
}

static tool_component_string_t string(const char *text, size_t length) {
    return (tool_component_string_t){(uint8_t *)text, length};
}

static bool append(wasi_http_types_own_fields_t fields, const char *name, const char *value) {
    tool_component_string_t name_string = string(name, strlen(name));
    wasi_http_types_field_value_t bytes = {(uint8_t *)value, strlen(value)};
    wasi_http_types_header_error_t error;
    return wasi_http_types_method_fields_append(wasi_http_types_borrow_fields(fields), &name_string,
                                                &bytes, &error);
}

static bool set_method(wasi_http_types_borrow_outgoing_request_t outgoing, const char *name) {
    static const struct {
        const char *name;
        uint8_t tag;
    } known[] = {
        {"GET", WASI_HTTP_TYPES_METHOD_GET},         {"HEAD", WASI_HTTP_TYPES_METHOD_HEAD},
        {"POST", WASI_HTTP_TYPES_METHOD_POST},       {"PUT", WASI_HTTP_TYPES_METHOD_PUT},
        {"DELETE", WASI_HTTP_TYPES_METHOD_DELETE},   {"PATCH", WASI_HTTP_TYPES_METHOD_PATCH},
        {"OPTIONS", WASI_HTTP_TYPES_METHOD_OPTIONS},
    };
    wasi_http_types_method_t method = {.tag = WASI_HTTP_TYPES_METHOD_OTHER};
    method.val.other = string(name, strlen(name));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0) method.tag = known[i].tag;
    return wasi_http_types_method_outgoing_request_set_method(outgoing, &method);
}

// Sets the scheme, the authority and the path. Returns false if the address is not valid.
static bool set_address(wasi_http_types_borrow_outgoing_request_t outgoing, const char *url) {
    wasi_http_types_scheme_t scheme = {0};
    if (strncmp(url, "https://", 8) == 0) {
        scheme.tag = WASI_HTTP_TYPES_SCHEME_HTTPS;
        url += 8;
    } else if (strncmp(url, "http://", 7) == 0) {
        scheme.tag = WASI_HTTP_TYPES_SCHEME_HTTP;
        url += 7;
    } else {
        return false;
    }
    size_t end = strcspn(url, "/?#");
    tool_component_string_t authority = string(url, end);
    sh_buffer path = {0};
    if (url[end] != '/') sh_append(&path, "/", 1);
    sh_append(&path, url + end, strcspn(url + end, "#"));
    tool_component_string_t path_string = string(path.bytes, path.length);
    bool set = wasi_http_types_method_outgoing_request_set_scheme(outgoing, &scheme) &&
               wasi_http_types_method_outgoing_request_set_authority(outgoing, &authority) &&
               wasi_http_types_method_outgoing_request_set_path_with_query(outgoing, &path_string);
    free(path.bytes);
    return set;
}

static void drop_stream_error(wasi_io_streams_stream_error_t *error) {
    if (error->tag == WASI_IO_STREAMS_STREAM_ERROR_LAST_OPERATION_FAILED)
        wasi_io_error_error_drop_own(error->val.last_operation_failed);
}

// Writes the body of a request. After an error here, the response says why.
static void write_body(const sh_http_request *request, wasi_http_types_own_outgoing_body_t body) {
    wasi_io_streams_own_output_stream_t stream;
    if (!wasi_http_types_method_outgoing_body_write(wasi_http_types_borrow_outgoing_body(body), &stream))
        return;
    wasi_io_streams_borrow_output_stream_t borrowed = wasi_io_streams_borrow_output_stream(stream);
    wasi_io_streams_stream_error_t error;
    bool written = true;
    for (size_t at = 0; written && at < request->body_size;) {
        uint64_t capacity;
        written = wasi_io_streams_method_output_stream_check_write(borrowed, &capacity, &error);
        if (!written) break;
        if (capacity == 0) {
            wasi_io_poll_own_pollable_t pollable =
                wasi_io_streams_method_output_stream_subscribe(borrowed);
            wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(pollable));
            wasi_io_poll_pollable_drop_own(pollable);
            continue;
        }
        size_t rest = request->body_size - at;
        tool_component_list_u8_t chunk = {(uint8_t *)request->body + at,
                                          capacity < rest ? (size_t)capacity : rest};
        written = wasi_io_streams_method_output_stream_write(borrowed, &chunk, &error);
        at += chunk.len;
    }
    written = written && wasi_io_streams_method_output_stream_blocking_flush(borrowed, &error);
    if (!written) drop_stream_error(&error);
    wasi_io_streams_output_stream_drop_own(stream);
    if (!written) {
        wasi_http_types_outgoing_body_drop_own(body);
        return;
    }
    error_code code;
    if (!wasi_http_types_static_outgoing_body_finish(body, NULL, &code))
        wasi_http_types_error_code_free(&code);
}

static sh_http_header *copy_headers(wasi_http_types_own_fields_t fields) {
    wasi_http_types_list_tuple2_field_name_field_value_t entries;
    wasi_http_types_method_fields_entries(wasi_http_types_borrow_fields(fields), &entries);
    sh_buffer headers = {0};
    for (size_t i = 0; i < entries.len; i++) {
        sh_buffer name = {0}, value = {0};
        sh_append(&name, (char *)entries.ptr[i].f0.ptr, entries.ptr[i].f0.len);
        sh_append(&name, "", 1);
        sh_append(&value, (char *)entries.ptr[i].f1.ptr, entries.ptr[i].f1.len);
        sh_append(&value, "", 1);
        sh_http_header header = {name.bytes, value.bytes};
        sh_append(&headers, (char *)&header, sizeof header);
    }
    sh_http_header end = {0};
    sh_append(&headers, (char *)&end, sizeof end);
    wasi_http_types_list_tuple2_field_name_field_value_free(&entries);
    wasi_http_types_fields_drop_own(fields);
    return (sh_http_header *)headers.bytes;
}

// Reads the body of a response from its stream.
static bool read_body(const sh_http_request *request, sh_http_response *response,
                      wasi_io_streams_borrow_input_stream_t stream) {
    size_t max = request->max_body ? request->max_body : SH_HTTP_MAX_BODY;
    sh_buffer body = {0};
    for (;;) {
        tool_component_list_u8_t chunk;
        wasi_io_streams_stream_error_t error;
        if (!wasi_io_streams_method_input_stream_blocking_read(stream, CHUNK_BYTES, &chunk, &error)) {
            if (error.tag == WASI_IO_STREAMS_STREAM_ERROR_CLOSED) break;
            error_code code;
            sh_http_kind kind = SH_HTTP_CONNECTION;
            if (wasi_http_types_http_error_code(
                    wasi_io_error_borrow_error(error.val.last_operation_failed), &code)) {
                kind = kind_of(&code);
                wasi_http_types_error_code_free(&code);
            }
            drop_stream_error(&error);
            return fail(request, response, kind);
        }
        bool continues = true;
        if (request->take != NULL)
            continues = request->take(request->context, (char *)chunk.ptr, chunk.len);
        else if (chunk.len > max - body.length)
            return fail(request, response, SH_HTTP_LIMIT);
        else
            sh_append(&body, (char *)chunk.ptr, chunk.len);
        tool_component_list_u8_free(&chunk);
        if (!continues) break;
    }
    if (request->take != NULL) return true;
    response->size = body.length;
    sh_append(&body, "", 1);
    response->body = body.bytes;
    return true;
}

static bool read_response(const sh_http_request *request, sh_http_response *response,
                          wasi_http_types_own_incoming_response_t incoming) {
    wasi_http_types_borrow_incoming_response_t borrowed =
        wasi_http_types_borrow_incoming_response(incoming);
    response->status = wasi_http_types_method_incoming_response_status(borrowed);
    response->headers = copy_headers(wasi_http_types_method_incoming_response_headers(borrowed));
    wasi_http_types_own_incoming_body_t body;
    wasi_io_streams_own_input_stream_t stream;
    // Cannot fail: nothing took the body or its stream before.
    if (!wasi_http_types_method_incoming_response_consume(borrowed, &body) ||
        !wasi_http_types_method_incoming_body_stream(wasi_http_types_borrow_incoming_body(body), &stream))
        return fail(request, response, SH_HTTP_OTHER);
    bool read = read_body(request, response, wasi_io_streams_borrow_input_stream(stream));
    wasi_io_streams_input_stream_drop_own(stream);
    wasi_http_types_incoming_body_drop_own(body);
    wasi_http_types_incoming_response_drop_own(incoming);
    return read;
}

static wasi_http_types_own_request_options_t options(unsigned timeout) {
    wasi_http_types_own_request_options_t options = wasi_http_types_constructor_request_options();
    wasi_http_types_borrow_request_options_t borrowed =
        wasi_http_types_borrow_request_options(options);
    uint64_t nanoseconds = (uint64_t)timeout * 1000000;
    // A host that has no such timeout waits as long as it does by default.
    wasi_http_types_method_request_options_set_connect_timeout(borrowed, &nanoseconds);
    wasi_http_types_method_request_options_set_first_byte_timeout(borrowed, &nanoseconds);
    wasi_http_types_method_request_options_set_between_bytes_timeout(borrowed, &nanoseconds);
    return options;
}

bool sh_http_send(const sh_http_request *request, sh_http_response *response) {
    *response = (sh_http_response){0};
    wasi_http_types_own_fields_t fields = wasi_http_types_constructor_fields();
    for (const sh_http_header *header = request->headers; header != NULL && header->name != NULL; header++)
        if (!append(fields, header->name, header->value))
            return fail(request, response, SH_HTTP_PROTOCOL);
    char length[24];
    snprintf(length, sizeof length, "%zu", request->body_size);
    if (request->body != NULL && !append(fields, "content-length", length))
        return fail(request, response, SH_HTTP_PROTOCOL);
    wasi_http_types_own_outgoing_request_t outgoing =
        wasi_http_types_constructor_outgoing_request(fields);
    wasi_http_types_borrow_outgoing_request_t borrowed =
        wasi_http_types_borrow_outgoing_request(outgoing);
    wasi_http_types_own_outgoing_body_t body;
    if (!set_method(borrowed, request->method) || !set_address(borrowed, request->url) ||
        (request->body != NULL && !wasi_http_types_method_outgoing_request_body(borrowed, &body)))
        return fail(request, response, SH_HTTP_PROTOCOL);

    wasi_http_types_own_request_options_t own_options;
    if (request->timeout != 0) own_options = options(request->timeout);
    wasi_http_types_own_future_incoming_response_t future;
    error_code code;
    if (!wasi_http_outgoing_handler_handle(outgoing, request->timeout != 0 ? &own_options : NULL,
                                           &future, &code))
        return fail(request, response, kind_of(&code));
    if (request->body != NULL) write_body(request, body);

    wasi_http_types_borrow_future_incoming_response_t waiting =
        wasi_http_types_borrow_future_incoming_response(future);
    wasi_io_poll_own_pollable_t pollable =
        wasi_http_types_method_future_incoming_response_subscribe(waiting);
    wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(pollable));
    wasi_io_poll_pollable_drop_own(pollable);
    wasi_http_types_result_result_own_incoming_response_error_code_void_t result;
    // Cannot fail: the future is ready, and nothing took its value before.
    if (!wasi_http_types_method_future_incoming_response_get(waiting, &result) || result.is_err)
        return fail(request, response, SH_HTTP_OTHER);
    wasi_http_types_future_incoming_response_drop_own(future);
    if (result.val.ok.is_err) return fail(request, response, kind_of(&result.val.ok.val.err));
    return read_response(request, response, result.val.ok.val.ok);
}

bool sh_http_get(const char *url, const sh_http_header *headers, sh_http_response *response) {
    sh_http_request request = {.method = "GET", .url = url, .headers = headers};
    return sh_http_send(&request, response);
}

bool sh_http_post(const char *url, const sh_http_header *headers, const char *json,
                  sh_http_response *response) {
    sh_buffer all = {0};
    sh_http_header more[] = { {"content-type", "application/json"}, {0} };
    for (; headers != NULL && headers->name != NULL; headers++)
        sh_append(&all, (const char *)headers, sizeof *headers);
    sh_append(&all, (const char *)more, sizeof more);
    sh_http_request request = {.method = "POST",
                               .url = url,
                               .headers = (const sh_http_header *)all.bytes,
                               .body = json,
                               .body_size = strlen(json)};
    return sh_http_send(&request, response);
}

const char *sh_http_header_value(const sh_http_response *response, const char *name) {
    for (const sh_http_header *header = response->headers; header != NULL && header->name != NULL; header++)
        if (strcmp(header->name, name) == 0) return header->value;
    return NULL;
}

const char *sh_http_kind_name(sh_http_kind kind) { return KINDS[kind].name; }

bool sh_http_fail(sh_answer *answer, const sh_http_response *response) {
    sh_failure_kind kind = response->kind == SH_HTTP_DENIED ? SH_REFUSED : SH_FAILED;
    return sh_fail(answer, kind, "%s", response->error);
}

void sh_http_encode(sh_buffer *url, const char *text) {
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        char encoded[4] = {(char)c};
        bool plain = isalnum(c) || (c != '\0' && strchr("-._~", c) != NULL);
        if (!plain) snprintf(encoded, sizeof encoded, "%%%02X", c);
        sh_append(url, encoded, plain ? 1 : 3);
    }
}
