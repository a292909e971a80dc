// The tool `parity`, which tests use to compare the kits of all languages.

#include "skillhost_http.h"
#include "skillhost_kit.h"

#include <stdio.h>
#include <string.h>

// The maximum numbers of bytes and of names that the tool asks for.
#define BYTES 64
// A limit that no file reaches, because it exceeds the memory of a call.
#define UNLIMITED (1 << 30)
#define NAMES 12

static bool joined(const sh_names *names, sh_answer *answer) {
    sh_buffer text = {0};
    for (size_t i = 0; i < names->count; i++) {
        if (i > 0) sh_append(&text, "\n", 1);
        sh_append(&text, names->names[i], strlen(names->names[i]));
    }
    return sh_answer_text(answer, text.length ? text.bytes : "", text.length);
}

static bool add_size(void *size, const char *bytes, size_t length) {
    (void)bytes;
    *(size_t *)size += length;
    return true;
}

// Sends a request if the action is one that sends requests. Sets `answered` to whether it is.
static bool send(const char *action, const char *url, bool *answered, sh_answer *answer) {
    sh_http_response response;
    sh_buffer text = {0};
    *answered = true;
    if (strcmp(action, "get") == 0 || strcmp(action, "secret") == 0) {
        const char *token = sh_variable("TOKEN");
        sh_append(&text, "Bearer ", 7);
        sh_append(&text, token ? token : "", token ? strlen(token) + 1 : 1);
        sh_http_header headers[] = {{"authorization", text.bytes}, {0}};
        if (!sh_http_get(url, *action == 's' ? headers : NULL, &response)) return sh_http_fail(answer, &response);
        const char *kind = sh_http_header_value(&response, "x-kind");
        char start[64];
        int length = snprintf(start, sizeof start, "%u %s ", response.status, kind ? kind : "-");
        text.length = 0;
        sh_append(&text, start, (size_t)length);
        sh_append(&text, response.body, response.size);
        return sh_answer_text(answer, text.bytes, text.length);
    }
    if (strcmp(action, "post") == 0) {
        if (!sh_http_post(url, NULL, "{\"path\": \"a knot\"}", &response))
            return sh_http_fail(answer, &response);
        const char *echo = sh_string(response.body, "echo");
        return sh_answer_text(answer, echo, strlen(echo));
    }
    if (strcmp(action, "stream") == 0) {
        size_t size = 0;
        sh_http_request request = {.method = "PUT", .url = url, .body = "a body", .body_size = 6,
                                   .take = add_size, .context = &size};
        if (!sh_http_send(&request, &response)) return sh_http_fail(answer, &response);
        char number[24];
        int length = snprintf(number, sizeof number, "%zu bytes", size);
        return sh_answer_text(answer, number, (size_t)length);
    }
    if (strcmp(action, "kind") == 0) {
        bool sent = sh_http_get(url, NULL, &response);
        const char *kind = sent ? "no error" : sh_http_kind_name(response.kind);
        return sh_answer_text(answer, kind, strlen(kind));
    }
    *answered = false;
    return false;
}

static bool parity(const char *arguments, const sh_folder *folder, sh_answer *answer) {
    const char *action = sh_string(arguments, "action"), *path = sh_string(arguments, "path");
    if (path == NULL) path = ".";
    sh_names names;
    char *bytes;
    size_t size;
    if (strcmp(action, "list") == 0)
        return sh_list(folder, path, NAMES, &names, answer) && joined(&names, answer);
    if (strcmp(action, "files") == 0)
        return sh_files(folder, path, NAMES, &names, answer) && joined(&names, answer);
    if (strcmp(action, "bytes") == 0) {
        if (!sh_read_bytes(folder, path, BYTES, &bytes, &size, answer)) return false;
        sh_buffer text = {0};
        for (size_t i = 0; i < size; i++) {
            char number[8];
            int length = snprintf(number, sizeof number, "%s%d", i ? " " : "", (unsigned char)bytes[i]);
            sh_append(&text, number, (size_t)length);
        }
        return sh_answer_text(answer, text.length ? text.bytes : "", text.length);
    }
    if (strcmp(action, "text") == 0)
        return sh_read_text(folder, path, BYTES, &bytes, &size, answer) &&
               sh_answer_text(answer, bytes, size);
    if (strcmp(action, "whole") == 0)
        return sh_read_text(folder, path, UNLIMITED, &bytes, &size, answer) &&
               sh_answer_text(answer, bytes, size);
    if (strcmp(action, "integer") == 0) {
        char number[24];
        long long integer = sh_integer(arguments, "number", -1);
        int length = snprintf(number, sizeof number, "%lld", integer);
        return sh_answer_text(answer, number, (size_t)length);
    }
    if (strcmp(action, "answer") == 0) return sh_answer_file(folder, path, BYTES, answer);
    if (strcmp(action, "record") == 0) {
        sh_buffer record = {0};
        sh_append(&record, "{\"path\": ", 9);
        sh_append_json(&record, path, strlen(path));
        sh_append(&record, "}", 2);
        return sh_answer_record(answer, "a text", 6, record.bytes);
    }
    if (strcmp(action, "log") == 0) {
        sh_log("%s", path);
        return sh_answer_text(answer, "logged", 6);
    }
    if (strcmp(action, "variable") == 0) {
        const char *value = sh_variable(path);
        if (value == NULL) value = "not set";
        return sh_answer_text(answer, value, strlen(value));
    }
    bool answered;
    bool result = send(action, path, &answered, answer);
    if (answered) return result;
    sh_failure_kind kind = strcmp(action, "invalid-arguments") == 0 ? SH_INVALID_ARGUMENTS
                         : strcmp(action, "not-found") == 0 ? SH_NOT_FOUND
                         : strcmp(action, "refused") == 0 ? SH_REFUSED
                         : strcmp(action, "unreadable") == 0 ? SH_UNREADABLE : SH_FAILED;
    return sh_fail(answer, kind, "%s", path);
}

const sh_tool sh_tools[] = {
    {
        .name = "parity",
        .description = "Compare the kits.",
        .skill = "skill_name",
        .path = "path",
        .input =
            "{\"type\": \"object\","
            " \"properties\": {"
            "  \"skill_name\": {\"type\": \"string\", \"description\": \"Name of the skill\"},"
            "  \"action\": {\"type\": \"string\", \"description\": \"What to do\"},"
            "  \"path\": {\"type\": \"string\","
            "   \"description\": \"A path, or what the action is about\"},"
            "  \"number\": {\"type\": \"number\", \"description\": \"A number, in C alone\"}},"
            " \"required\": [\"skill_name\", \"action\"]}",
        .call = parity,
    },
};
const size_t sh_tool_count = sizeof sh_tools / sizeof sh_tools[0];
