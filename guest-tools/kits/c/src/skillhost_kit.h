// Connects a tool's function with the interface skillhost:tool.
//
// A component defines `sh_tools` and `sh_tool_count`; skillhost_kit.c exports them. The host
// discards the sandbox after each call, so a tool need not free memory.

#ifndef SKILLHOST_KIT_H
#define SKILLHOST_KIT_H

#include <stdbool.h>
#include <stddef.h>

// The kind of a failure.
typedef enum {
    SH_INVALID_ARGUMENTS, // the arguments are invalid; the caller can correct them
    SH_NOT_FOUND,         // a file or something else that the call names does not exist
    SH_REFUSED,           // the request is not allowed
    SH_UNREADABLE,        // a file exists but cannot be read
    SH_FAILED,            // the tool could not do its work
} sh_failure_kind;

// The folder of the skill that a call names.
typedef struct sh_folder sh_folder;
// The answer of a call: an output or a failure.
typedef struct sh_answer sh_answer;

// Marks a required field. The compiler reports a tool without it.
#if __has_attribute(require_explicit_initialization)
#pragma clang diagnostic error "-Wuninitialized-explicit-init"
#define SH_REQUIRED __attribute__((require_explicit_initialization))
#else
#define SH_REQUIRED
#endif

typedef struct {
    const char *name SH_REQUIRED;
    const char *title;                   // the title for people; NULL for none
    const char *description SH_REQUIRED; // the description for the model
    const char *input SH_REQUIRED;       // JSON Schema of the arguments object
    const char *output;                  // JSON Schema of the record; NULL for none
    const char *skill;                   // the property that names a skill; NULL if calls read no folder
    const char *path;                    // the property with a path in that folder; may be NULL
    // Answers a call with sh_answer_… or sh_fail, and returns the result of that function.
    // `arguments` is a JSON object that is valid against `input`.
    bool (*call)(const char *arguments, const sh_folder *folder, sh_answer *answer) SH_REQUIRED;
} sh_tool;

extern const sh_tool sh_tools[];
extern const size_t sh_tool_count;

// Answers with a text for the model. Returns true.
bool sh_answer_text(sh_answer *answer, const char *text, size_t length);
// Answers with a text for the model and a record for programs, which is a JSON object. Returns true.
bool sh_answer_record(sh_answer *answer, const char *text, size_t length, const char *json);
// Answers with the text of a file of at most `limit` bytes. The host reads the file, which is much
// faster for large files. Returns false and fails the answer if the file cannot be read.
bool sh_answer_file(const sh_folder *folder, const char *path, size_t limit, sh_answer *answer);
// Fails the call with a message for the model, formatted as by printf. Returns false.
bool sh_fail(sh_answer *answer, sh_failure_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Returns a string property of the arguments, or NULL. U+0000 becomes U+FFFD.
const char *sh_string(const char *arguments, const char *property);
// Returns an integer property of the arguments, or `otherwise`.
long long sh_integer(const char *arguments, const char *property, long long otherwise);
// Returns a boolean property of the arguments, or `otherwise`.
bool sh_boolean(const char *arguments, const char *property, bool otherwise);

// Reads a file of at most `limit` bytes. Returns false and fails the answer if the file cannot be
// read; the tool's function then returns false, too.
bool sh_read_bytes(const sh_folder *folder, const char *path, size_t limit, char **bytes,
                   size_t *size, sh_answer *answer);
// Reads a UTF-8 file as text without its byte order mark, and adds a NUL. Otherwise as
// sh_read_bytes.
bool sh_read_text(const sh_folder *folder, const char *path, size_t limit, char **text,
                  size_t *size, sh_answer *answer);
// A sorted list of names or paths.
typedef struct {
    char **names;
    size_t count;
} sh_names;

// Lists the names in a folder. The names of folders end with a slash. The path of the skill's own
// folder is ".". Returns false and fails the answer if the folder cannot be listed or has more than
// `max` names.
bool sh_list(const sh_folder *folder, const char *path, size_t max, sh_names *names,
             sh_answer *answer);
// Lists the paths of the files in a folder and in its subfolders. Does not follow symlinks to
// folders. Returns false and fails the answer as sh_list does.
bool sh_files(const sh_folder *folder, const char *path, size_t max, sh_names *paths,
              sh_answer *answer);
// Opens a file or a folder for read, fstat and fdopendir. Returns -1 and sets errno if it cannot be
// opened; also fails the answer, unless `answer` is NULL.
int sh_open(const sh_folder *folder, const char *path, sh_answer *answer);
// Fails the call with the path and the reason of an errno. Returns false.
bool sh_fail_path(sh_answer *answer, const char *path, int error);
// Returns the reason of an errno, as a part of a message.
const char *sh_reason(int error);

// Writes a line to the operator's log, formatted as by printf. `skillhost --log info` shows it.
void sh_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Returns the value of an environment variable, or NULL if the operator did not set it.
const char *sh_variable(const char *name);

// A growing buffer. Initialize it with {0}. `room` is its capacity.
typedef struct {
    char *bytes;
    size_t length, room;
} sh_buffer;

// Appends bytes.
void sh_append(sh_buffer *buffer, const char *bytes, size_t length);
// Appends a text as a JSON string, with quotes and escapes.
void sh_append_json(sh_buffer *buffer, const char *text, size_t length);

#endif
