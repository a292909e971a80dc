// Implements skillhost_kit.h with the bindings that `skillhost build` generates from wit/.

#include "skillhost_kit.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool_component.h"

#define OUTSIDE_MESSAGE "Path traversal detected: cannot access files outside skill folder"

// The maximum size of a failure's message, with its NUL.
#define MAX_MESSAGE_BYTES 8192

typedef exports_skillhost_tool_tools_definition_t definition;
typedef exports_skillhost_tool_tools_folder_t folder_case;

struct sh_folder {
    const char *mount;
};

struct sh_answer {
    exports_skillhost_tool_tools_output_t *output;
    exports_skillhost_tool_tools_failure_t *failure;
};

// Allocates or resizes memory. Aborts the call if there is none left.
static void *allocate(void *old, size_t bytes) {
    void *memory = realloc(old, bytes ? bytes : 1);
    if (memory == NULL) abort();
    return memory;
}

static char *copy(const void *bytes, size_t length) {
    char *text = allocate(NULL, length + 1);
    memcpy(text, bytes, length);
    text[length] = '\0';
    return text;
}

static void set(tool_component_string_t *string, const char *text, size_t length) {
    string->ptr = (uint8_t *)copy(text, length);
    string->len = length;
}

// Sets a string. NULL becomes the empty string, which the build refuses where a text is required.
static void set_text(tool_component_string_t *string, const char *text) {
    set(string, text ? text : "", text ? strlen(text) : 0);
}

// ---- definitions and calls

void exports_skillhost_tool_tools_definitions(
    exports_skillhost_tool_tools_list_definition_t *list) {
    list->len = sh_tool_count;
    list->ptr = allocate(NULL, sh_tool_count * sizeof(definition));
    memset(list->ptr, 0, sh_tool_count * sizeof(definition));
    for (size_t i = 0; i < sh_tool_count; i++) {
        const sh_tool *tool = &sh_tools[i];
        definition *target = &list->ptr[i];
        set_text(&target->name, tool->name);
        set_text(&target->title, tool->title);
        set_text(&target->description, tool->description);
        set_text(&target->input_schema, tool->input);
        if (tool->output != NULL) {
            target->output_schema.is_some = true;
            set_text(&target->output_schema.val, tool->output);
        }
        target->model_reads = EXPORTS_SKILLHOST_TOOL_TOOLS_FORM_TEXT;
        if (tool->skill != NULL) {
            target->folder.is_some = true;
            set_text(&target->folder.val.skill_property, tool->skill);
            if (tool->path != NULL) {
                target->folder.val.path_property.is_some = true;
                set_text(&target->folder.val.path_property.val, tool->path);
            }
        }
    }
}

// Sets the folder of a call. Returns false and fails the answer if the call has no folder.
static bool open_folder(const folder_case *folder_argument, sh_folder *folder, sh_answer *answer) {
    switch (folder_argument->tag) {
    case EXPORTS_SKILLHOST_TOOL_TOOLS_FOLDER_OPEN:
        folder->mount =
            copy(folder_argument->val.open.mount.ptr, folder_argument->val.open.mount.len);
        return true;
    case EXPORTS_SKILLHOST_TOOL_TOOLS_FOLDER_UNKNOWN_SKILL:
        return sh_fail(answer, SH_NOT_FOUND,
                       "There is no skill of that name. list_skills lists all skills.");
    case EXPORTS_SKILLHOST_TOOL_TOOLS_FOLDER_UNREADABLE:
        return sh_fail(answer, SH_UNREADABLE, "The skill's folder cannot be read.");
    case EXPORTS_SKILLHOST_TOOL_TOOLS_FOLDER_NO_HOME:
        return sh_fail(answer, SH_INVALID_ARGUMENTS,
                       "Name a skill: no home folder is configured.");
    case EXPORTS_SKILLHOST_TOOL_TOOLS_FOLDER_OUTSIDE:
        return sh_fail(answer, SH_REFUSED, OUTSIDE_MESSAGE);
    default:
        return sh_fail(answer, SH_FAILED, "This tool was not given a folder to read.");
    }
}

bool exports_skillhost_tool_tools_call(tool_component_string_t *name,
                                       tool_component_string_t *arguments,
                                       folder_case *folder_argument,
                                       exports_skillhost_tool_tools_output_t *output,
                                       exports_skillhost_tool_tools_failure_t *failure) {
    sh_answer answer = {output, failure};
    sh_folder folder = {NULL};
    memset(output, 0, sizeof *output);
    memset(failure, 0, sizeof *failure);
    for (size_t i = 0; i < sh_tool_count; i++) {
        const sh_tool *tool = &sh_tools[i];
        if (strlen(tool->name) != name->len || memcmp(tool->name, name->ptr, name->len) != 0)
            continue;
        if (tool->call == NULL) return sh_fail(&answer, SH_FAILED, "this tool has no function");
        if (tool->skill != NULL && !open_folder(folder_argument, &folder, &answer)) return false;
        return tool->call(copy(arguments->ptr, arguments->len), &folder, &answer);
    }
    return sh_fail(&answer, SH_FAILED, "this component has no tool of that name");
}

bool sh_answer_text(sh_answer *answer, const char *text, size_t length) {
    set(&answer->output->text, text, length);
    return true;
}

bool sh_answer_record(sh_answer *answer, const char *text, size_t length, const char *json) {
    answer->output->details.is_some = true;
    set_text(&answer->output->details.val, json);
    return sh_answer_text(answer, text, length);
}

// Returns the number of bytes before the first invalid or incomplete UTF-8 character.
static size_t valid_utf8_length(const char *text, size_t length) {
    const unsigned char *at = (const unsigned char *)text;
    size_t i = 0;
    while (i < length) {
        unsigned char first = at[i];
        size_t more = first < 0x80 ? 0 : first >= 0xC2 && first < 0xE0 ? 1
                    : first >= 0xE0 && first < 0xF0 ? 2 : first >= 0xF0 && first < 0xF5 ? 3 : 4;
        if (more == 4 || length - i <= more) return i;
        for (size_t n = 1; n <= more; n++) {
            unsigned char low = n > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
            unsigned char high = n > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
            if (at[i + n] < low || at[i + n] > high) return i;
        }
        i += more + 1;
    }
    return i;
}

bool sh_fail(sh_answer *answer, sh_failure_kind kind, const char *format, ...) {
    static const exports_skillhost_tool_tools_failure_kind_t kinds[] = {
        [SH_INVALID_ARGUMENTS] = EXPORTS_SKILLHOST_TOOL_TOOLS_FAILURE_KIND_INVALID_ARGUMENTS,
        [SH_NOT_FOUND] = EXPORTS_SKILLHOST_TOOL_TOOLS_FAILURE_KIND_NOT_FOUND,
        [SH_REFUSED] = EXPORTS_SKILLHOST_TOOL_TOOLS_FAILURE_KIND_REFUSED,
        [SH_UNREADABLE] = EXPORTS_SKILLHOST_TOOL_TOOLS_FAILURE_KIND_UNREADABLE,
        [SH_FAILED] = EXPORTS_SKILLHOST_TOOL_TOOLS_FAILURE_KIND_FAILED,
    };
    char message[MAX_MESSAGE_BYTES];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(message, sizeof message, format, values);
    va_end(values);
    if (length < 0) length = 0;
    if ((size_t)length >= sizeof message) length = sizeof message - 1;
    answer->failure->kind = kinds[kind];
    // A message that was cut may end in the middle of a character.
    set(&answer->failure->message, message, valid_utf8_length(message, (size_t)length));
    return false;
}

// ---- arguments: JSON that the host has checked, so it is well formed

// Returns the first position that is not white space.
static const char *skip_space(const char *at) {
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
    return at;
}

// Returns the position after a string. `at` is its opening quote.
static const char *skip_string(const char *at) {
    for (at++; *at != '"' && *at != '\0'; at++)
        if (*at == '\\' && at[1] != '\0') at++;
    return *at == '"' ? at + 1 : at;
}

// Returns the position after a value: a comma, a closing bracket or the end.
static const char *skip_value(const char *at) {
    int depth = 0;
    for (; *at != '\0'; at++) {
        if (*at == '"') {
            at = skip_string(at) - 1;
        } else if (*at == '{' || *at == '[') {
            depth++;
        } else if (*at == '}' || *at == ']') {
            if (depth == 0) return at;
            depth--;
        } else if (*at == ',' && depth == 0) {
            return at;
        }
    }
    return at;
}

static void append_utf8(sh_buffer *buffer, unsigned long c) {
    char bytes[4];
    size_t n = 0;
    if (c < 0x80) {
        bytes[n++] = (char)c;
    } else if (c < 0x800) {
        bytes[n++] = (char)(0xC0 | c >> 6);
        bytes[n++] = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        bytes[n++] = (char)(0xE0 | c >> 12);
        bytes[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        bytes[n++] = (char)(0x80 | (c & 0x3F));
    } else {
        bytes[n++] = (char)(0xF0 | c >> 18);
        bytes[n++] = (char)(0x80 | (c >> 12 & 0x3F));
        bytes[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        bytes[n++] = (char)(0x80 | (c & 0x3F));
    }
    sh_append(buffer, bytes, n);
}

// Reads four hex digits. Returns U+FFFD if there are fewer.
static unsigned long read_hex4(const char **at) {
    unsigned long c = 0;
    for (int n = 0; n < 4; n++) {
        unsigned char digit = (unsigned char)**at;
        if (!isxdigit(digit)) return 0xFFFD;
        c = c * 16 + (unsigned long)(isdigit(digit) ? digit - '0' : tolower(digit) - 'a' + 10);
        (*at)++;
    }
    return c;
}

// Returns the text of a JSON string. `at` is its opening quote.
static char *unescape(const char *at) {
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *end = skip_string(at);
    sh_buffer text = {0};
    for (at++; at < end && *at != '"';) {
        if (*at != '\\') {
            sh_append(&text, at++, 1);
            continue;
        }
        char escape = at[1];
        at += 2;
        const char *plain = escape ? strchr(from, escape) : NULL;
        if (escape == 'u') {
            unsigned long c = read_hex4(&at);
            bool high = c >= 0xD800 && c < 0xDC00, low = c >= 0xDC00 && c < 0xE000;
            if (high && at[0] == '\\' && at[1] == 'u') {
                const char *next = at + 2;
                unsigned long second = read_hex4(&next);
                if (second >= 0xDC00 && second < 0xE000) {
                    c = 0x10000 + ((c - 0xD800) << 10) + (second - 0xDC00);
                    high = false;
                    at = next;
                }
            }
            append_utf8(&text, high || low || c == 0 ? 0xFFFD : c);
        } else {
            sh_append(&text, plain ? &to[plain - from] : &escape, 1);
        }
    }
    sh_append(&text, "", 1);
    return text.bytes;
}

// Returns the position of a property's value, or NULL.
static const char *find_value(const char *json, const char *property) {
    const char *at = skip_space(json);
    if (*at != '{') return NULL;
    at = skip_space(at + 1);
    while (*at == '"') {
        const char *key = at;
        at = skip_space(skip_string(at));
        if (*at != ':') return NULL;
        at = skip_space(at + 1);
        if (strcmp(unescape(key), property) == 0) return at;
        at = skip_value(at);
        if (*at != ',') return NULL;
        at = skip_space(at + 1);
    }
    return NULL;
}

const char *sh_string(const char *arguments, const char *property) {
    const char *found = find_value(arguments, property);
    return found != NULL && *found == '"' ? unescape(found) : NULL;
}

long long sh_integer(const char *arguments, const char *property, long long otherwise) {
    const char *found = find_value(arguments, property);
    if (found == NULL || (*found != '-' && !isdigit((unsigned char)*found))) return otherwise;
    errno = 0;
    char *end;
    long long integer = strtoll(found, &end, 10);
    if (*end != '.' && *end != 'e' && *end != 'E') return errno == 0 ? integer : otherwise;
    // JSON may write an integer with an exponent, too: 1e16.
    double number = strtod(found, NULL);
    if (!(number > -0x1p63 && number < 0x1p63)) return otherwise;
    integer = (long long)number;
    return (double)integer == number ? integer : otherwise;
}

bool sh_boolean(const char *arguments, const char *property, bool otherwise) {
    const char *found = find_value(arguments, property);
    if (found == NULL || (*found != 't' && *found != 'f')) return otherwise;
    return *found == 't';
}

// ---- reading

// Returns whether a path leaves the folder at any step, on a system with this separator besides
// the slash.
static bool leaves_folder(const char *path, char separator) {
    long depth = 0;
    while (*path != '\0') {
        size_t length = 0;
        while (path[length] != '\0' && path[length] != '/' && path[length] != separator) length++;
        if (length == 2 && path[0] == '.' && path[1] == '.') {
            depth--;
        } else if (length > 1 || (length == 1 && path[0] != '.')) {
            depth++;
        }
        if (depth < 0) return true;
        path += length;
        if (*path != '\0') path++;
    }
    return false;
}

// Refuses a path that leaves the folder at any step on any system. This check and the sandbox do
// not rely on each other. Returns NULL, or the reason and an errno.
static const char *check_path(const char *path, int *error) {
    *error = EINVAL;
    if (*path == '\0') return "path is empty";
    for (const unsigned char *at = (const unsigned char *)path; *at != '\0'; at++) {
        // U+0080 to U+009F are two bytes in UTF-8.
        if (*at < 0x20 || *at == 0x7F || (*at == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0))
            return "path contains control characters";
    }
    *error = EPERM;
    bool rooted = path[0] == '/' || path[0] == '\\' ||
                  (isalpha((unsigned char)path[0]) && path[1] == ':');
    if (rooted || leaves_folder(path, '/') || leaves_folder(path, '\\')) return OUTSIDE_MESSAGE;
    return NULL;
}

const char *sh_reason(int error) {
    switch (error) {
    case ENOENT:
    case ENOTDIR: return "not found";
    // A symlink in the path leads out of the folder.
    case EPERM: return OUTSIDE_MESSAGE;
    case EILSEQ: return "holds a name that is not UTF-8";
    case EINVAL: return "no valid path";
    case EISDIR: return "is a directory";
    case EACCES: return "permission denied";
    case ENOTSUP: return "is not a regular file";
    case EMLINK: return "has several hard links";
    case EXDEV: return "lies on another mount";
    case ELOOP: return "too many levels of symbolic links";
    case ENAMETOOLONG: return "name too long";
    default: return "cannot be read";
    }
}

bool sh_fail_path(sh_answer *answer, const char *path, int error) {
    sh_failure_kind kind = error == ENOENT || error == ENOTDIR ? SH_NOT_FOUND
                         : error == EPERM ? SH_REFUSED : SH_UNREADABLE;
    return sh_fail(answer, kind, "%s: %s", path, sh_reason(error));
}

// Checks the folder and the path of a call. Returns false and sets errno and the answer if there is
// no folder or the path is refused.
static bool check_access(const sh_folder *folder, const char *path, sh_answer *answer) {
    int error = EACCES;
    if (folder->mount == NULL) {
        if (answer) sh_fail(answer, SH_FAILED, "This tool was not given a folder to read.");
        errno = error;
        return false;
    }
    const char *reason = check_path(path, &error);
    if (reason != NULL) {
        if (answer && error == EINVAL) sh_fail(answer, SH_INVALID_ARGUMENTS, "%s", reason);
        if (answer && error == EPERM) sh_fail_path(answer, path, error);
        errno = error;
        return false;
    }
    return true;
}

int sh_open(const sh_folder *folder, const char *path, sh_answer *answer) {
    if (!check_access(folder, path, answer)) return -1;
    int error;
    sh_buffer full_path = {0};
    sh_append(&full_path, folder->mount, strlen(folder->mount));
    sh_append(&full_path, "/", 1);
    sh_append(&full_path, path, strlen(path) + 1);
    int file = open(full_path.bytes, O_RDONLY);
    error = errno;
    free(full_path.bytes);
    if (file < 0) {
        if (answer) sh_fail_path(answer, path, error);
        errno = error;
    }
    return file;
}

bool sh_read_bytes(const sh_folder *folder, const char *path, size_t limit, char **bytes,
                   size_t *size, sh_answer *answer) {
    int file = sh_open(folder, path, answer);
    if (file < 0) return false;
    struct stat state;
    if (fstat(file, &state) == 0 && S_ISDIR(state.st_mode)) {
        close(file);
        return sh_fail_path(answer, path, EISDIR);
    }
    sh_buffer content = {0};
    char chunk[65536];
    ssize_t count;
    while ((count = read(file, chunk, sizeof chunk)) > 0) {
        sh_append(&content, chunk, (size_t)count);
        if (content.length > limit) {
            close(file);
            return sh_fail(answer, SH_UNREADABLE, "%s: larger than %zu bytes", path, limit);
        }
    }
    int error = errno;
    close(file);
    if (count < 0) return sh_fail_path(answer, path, error);
    *size = content.length;
    sh_append(&content, "", 1);
    *bytes = content.bytes;
    return true;
}

bool sh_read_text(const sh_folder *folder, const char *path, size_t limit, char **text,
                  size_t *size, sh_answer *answer) {
    if (!sh_read_bytes(folder, path, limit, text, size, answer)) return false;
    if (valid_utf8_length(*text, *size) != *size)
        return sh_fail(answer, SH_UNREADABLE, "%s: not valid UTF-8 text", path);
    if (*size >= 3 && memcmp(*text, "\xEF\xBB\xBF", 3) == 0) {
        *text += 3;
        *size -= 3;
    }
    return true;
}

bool sh_answer_file(const sh_folder *folder, const char *path, size_t limit, sh_answer *answer) {
    static const int errors[] = {
        [SKILLHOST_TOOL_ANSWER_UNUSABLE_NOT_FOUND] = ENOENT,
        [SKILLHOST_TOOL_ANSWER_UNUSABLE_OUTSIDE] = EPERM,
        [SKILLHOST_TOOL_ANSWER_UNUSABLE_IS_DIRECTORY] = EISDIR,
        [SKILLHOST_TOOL_ANSWER_UNUSABLE_NOT_REGULAR] = ENOTSUP,
        [SKILLHOST_TOOL_ANSWER_UNUSABLE_HARD_LINKED] = EMLINK,
        [SKILLHOST_TOOL_ANSWER_UNUSABLE_OTHER_MOUNT] = EXDEV,
        [SKILLHOST_TOOL_ANSWER_UNUSABLE_PERMISSION_DENIED] = EACCES,
        [SKILLHOST_TOOL_ANSWER_UNUSABLE_SYMLINK_LOOP] = ELOOP,
        [SKILLHOST_TOOL_ANSWER_UNUSABLE_NAME_TOO_LONG] = ENAMETOOLONG,
        [SKILLHOST_TOOL_ANSWER_UNUSABLE_UNREADABLE] = EIO,
    };
    if (!check_access(folder, path, answer)) return false;
    tool_component_string_t path_string = {(uint8_t *)path, strlen(path)};
    uint64_t size;
    skillhost_tool_answer_unusable_t reason;
    if (skillhost_tool_answer_text_from_file(&path_string, limit, &size, &reason))
        return sh_answer_text(answer, "", 0);
    if (reason == SKILLHOST_TOOL_ANSWER_UNUSABLE_TOO_LARGE)
        return sh_fail(answer, SH_UNREADABLE, "%s: larger than %zu bytes", path, limit);
    if (reason == SKILLHOST_TOOL_ANSWER_UNUSABLE_NOT_UTF8)
        return sh_fail(answer, SH_UNREADABLE, "%s: not valid UTF-8 text", path);
    return sh_fail_path(answer, path, errors[reason]);
}

// ---- listing

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Returns `left`, `separator` and `right` as one string.
static char *join(const char *left, const char *separator, const char *right) {
    sh_buffer text = {0};
    sh_append(&text, left, strlen(left));
    sh_append(&text, separator, strlen(separator));
    sh_append(&text, right, strlen(right) + 1);
    return text.bytes;
}

static void push(sh_names *names, char *name) {
    // Double the capacity at each power of two.
    if ((names->count & (names->count - 1)) == 0)
        names->names = allocate(names->names, (names->count ? names->count * 2 : 1) * sizeof(char *));
    names->names[names->count++] = name;
}

// Adds the paths of a folder's entries to three lists: folders, symlinks to folders, and others.
static bool list_entries(const sh_folder *folder, const char *path, sh_names *folders, sh_names *links,
                    sh_names *others, sh_answer *answer) {
    int opened = sh_open(folder, path, answer);
    if (opened < 0) return false;
    struct stat state;
    if (fstat(opened, &state) == 0 && !S_ISDIR(state.st_mode)) {
        close(opened);
        return sh_fail(answer, SH_UNREADABLE, "%s: is not a directory", path);
    }
    // This already reads the first entries, so it can fail.
    DIR *stream = fdopendir(opened);
    if (stream == NULL) {
        int error = errno;
        close(opened);
        return sh_fail_path(answer, path, error);
    }
    const struct dirent *entry;
    while (errno = 0, (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        bool is_root = strcmp(path, ".") == 0;
        char *entry_path = join(is_root ? "" : path, is_root ? "" : "/", entry->d_name);
        bool is_link = entry->d_type == DT_LNK;
        bool is_folder = entry->d_type == DT_DIR;
        if (is_link) {
            char *full_path = join(folder->mount, "/", entry_path);
            is_folder = stat(full_path, &state) == 0 && S_ISDIR(state.st_mode);
        }
        push(!is_folder ? others : is_link ? links : folders, entry_path);
    }
    int error = errno;
    closedir(stream);
    return error == 0 || sh_fail_path(answer, path, error);
}

bool sh_list(const sh_folder *folder, const char *path, size_t max, sh_names *names,
             sh_answer *answer) {
    sh_names folders = {0}, links = {0}, others = {0};
    if (!list_entries(folder, path, &folders, &links, &others, answer)) return false;
    if (folders.count + links.count + others.count > max)
        return sh_fail(answer, SH_UNREADABLE, "%s: more than %zu names", path, max);
    // The lists have paths: skip the folder's path and the slash.
    size_t prefix = strcmp(path, ".") == 0 ? 0 : strlen(path) + 1;
    *names = (sh_names){0};
    for (size_t i = 0; i < others.count; i++) push(names, others.names[i] + prefix);
    for (size_t i = 0; i < folders.count; i++) push(names, join(folders.names[i] + prefix, "/", ""));
    for (size_t i = 0; i < links.count; i++) push(names, join(links.names[i] + prefix, "/", ""));
    if (names->count > 0) qsort(names->names, names->count, sizeof(char *), by_name);
    return true;
}

// Returns a path without `.`, `..` and doubled slashes.
static char *normalized(const char *path) {
    sh_buffer text = {0};
    while (*path != '\0') {
        size_t length = strcspn(path, "/");
        if (length == 2 && path[0] == '.' && path[1] == '.') {
            while (text.length > 0 && text.bytes[--text.length] != '/') continue;
        } else if (length > 1 || (length == 1 && path[0] != '.')) {
            if (text.length > 0) sh_append(&text, "/", 1);
            sh_append(&text, path, length);
        }
        path += length;
        if (*path != '\0') path++;
    }
    if (text.length == 0) sh_append(&text, ".", 1);
    sh_append(&text, "", 1);
    return text.bytes;
}

bool sh_files(const sh_folder *folder, const char *path, size_t max, sh_names *paths,
              sh_answer *answer) {
    if (!check_access(folder, path, answer)) return false;
    sh_names folders = {0}, links = {0};
    *paths = (sh_names){0};
    push(&folders, normalized(path));
    for (size_t next = 0; next < folders.count; next++) {
        if (!list_entries(folder, folders.names[next], &folders, &links, paths, answer)) return false;
        if (paths->count > max)
            return sh_fail(answer, SH_UNREADABLE, "%s: more than %zu files", path, max);
    }
    if (paths->count > 0) qsort(paths->names, paths->count, sizeof(char *), by_name);
    return true;
}

// ---- log and variables

void sh_log(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
}

const char *sh_variable(const char *name) { return getenv(name); }

// ---- buffers

void sh_append(sh_buffer *buffer, const char *bytes, size_t length) {
    if (buffer->room - buffer->length < length) {
        size_t needed = buffer->length + length;
        buffer->room = needed < 64 ? 128 : needed * 2;
        buffer->bytes = allocate(buffer->bytes, buffer->room);
    }
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
}

void sh_append_json(sh_buffer *buffer, const char *text, size_t length) {
    sh_append(buffer, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        char escaped[8];
        if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
            sh_append(buffer, escaped, 2);
        } else if (c < 0x20) {
            sh_append(buffer, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c));
        } else {
            sh_append(buffer, text + i, 1);
        }
    }
    sh_append(buffer, "\"", 1);
}
