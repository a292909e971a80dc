// Between a tool's function and the interface skillhost:tool.
//
// A component defines `sh_tools` and `sh_tool_count`; skillhost_kit.c exports them. Every call
// runs in a sandbox of its own that is thrown away, so nothing here needs to be freed.

#ifndef SKILLHOST_KIT_H
#define SKILLHOST_KIT_H

#include <stdbool.h>
#include <stddef.h>

// Whose problem a failure is.
typedef enum {
    SH_INVALID_ARGUMENTS, // the arguments make no sense together
    SH_NOT_FOUND,         // what was named is not there
    SH_REFUSED,           // what was asked for is allowed to nobody
    SH_UNREADABLE,        // it is there, and cannot be given
    SH_FAILED,            // the tool could not do its work
} sh_failure_kind;

// The folder of the skill that a call names, and the answer that it ends in.
typedef struct sh_folder sh_folder;
typedef struct sh_answer sh_answer;

// A field that each tool has: without it the compiler stops, and says where.
#if __has_attribute(require_explicit_initialization)
#pragma clang diagnostic error "-Wuninitialized-explicit-init"
#define SH_REQUIRED __attribute__((require_explicit_initialization))
#else
#define SH_REQUIRED
#endif

typedef struct {
    const char *name SH_REQUIRED;
    const char *title;                   // what a person reads; NULL: the name
    const char *description SH_REQUIRED; // what the model reads
    const char *input SH_REQUIRED;       // JSON Schema of the arguments object
    const char *output;                  // JSON Schema of the record; NULL: not described
    const char *skill;                   // the property that names a skill; NULL: calls read no folder
    const char *path;                    // the property that holds a path in that folder; may be NULL
    // Answers one call with sh_answer_… or sh_fail, and returns what that returned.
    // `arguments` is a JSON object that fits `input`.
    bool (*call)(const char *arguments, const sh_folder *folder, sh_answer *answer) SH_REQUIRED;
} sh_tool;

extern const sh_tool sh_tools[];
extern const size_t sh_tool_count;

// The text that the model reads.
bool sh_answer_text(sh_answer *answer, const char *text, size_t length);
// The same, with a record for programs: a JSON object.
bool sh_answer_record(sh_answer *answer, const char *text, size_t length, const char *json);
// The text of a file of the skill, of at most `limit` bytes. The host reads it: a large file costs
// a fraction. False: it cannot be read, and the answer says why.
bool sh_answer_file(const sh_folder *folder, const char *path, size_t limit, sh_answer *answer);
// Why there is no answer, in words for the model, put together as by printf.
bool sh_fail(sh_answer *answer, sh_failure_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A property of the arguments that is a string, or NULL. U+0000 in it becomes U+FFFD.
const char *sh_string(const char *arguments, const char *property);
// One that is an integer, or `otherwise`.
long long sh_integer(const char *arguments, const char *property, long long otherwise);
// One that is a boolean, or `otherwise`.
bool sh_boolean(const char *arguments, const char *property, bool otherwise);

// Reads a file of the skill, of at most `limit` bytes. False: it cannot be read, the answer
// says why, and the call returns false too.
bool sh_read_bytes(const sh_folder *folder, const char *path, size_t limit, char **bytes,
                   size_t *size, sh_answer *answer);
// The same for text in UTF-8, without a byte order mark. A NUL stands after it.
bool sh_read_text(const sh_folder *folder, const char *path, size_t limit, char **text,
                  size_t *size, sh_answer *answer);
// Names or paths, sorted.
typedef struct {
    char **names;
    size_t count;
} sh_names;

// The names in a folder of the skill, at most `most`. That of a folder ends with a slash. The path
// of the skill's own folder is ".". False: it cannot be listed, and the answer says why.
bool sh_list(const sh_folder *folder, const char *path, size_t most, sh_names *names,
             sh_answer *answer);
// The paths of the files in a folder and below it. Symlinks to folders are not followed.
bool sh_files(const sh_folder *folder, const char *path, size_t most, sh_names *paths,
              sh_answer *answer);
// Opens a file or a folder of the skill, for read, fstat and fdopendir. -1: it cannot be opened;
// errno says why, and so does the answer, if it is not NULL.
int sh_open(const sh_folder *folder, const char *path, sh_answer *answer);
// The failure that an errno of a file or folder is, and the words for it.
bool sh_fail_path(sh_answer *answer, const char *path, int error);
const char *sh_reason(int error);

// Writes a line to the operator's log, put together as by printf. `skillhost --log info` shows it.
void sh_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
// The value of a variable that the operator set for this tool, or NULL.
const char *sh_variable(const char *name);

// Text that grows; starts as {0}.
typedef struct {
    char *bytes;
    size_t length, room;
} sh_buffer;

void sh_append(sh_buffer *buffer, const char *bytes, size_t length);
// Appends a JSON string with its quotes, and escaped.
void sh_append_json(sh_buffer *buffer, const char *text, size_t length);

#endif
