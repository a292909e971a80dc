// The tool checksum: computes digests of a skill's files, and compares them with expected ones.
//
// name: checksum
// version: 0.1.0
// description: Digests of a skill's files
// license: MIT OR Apache-2.0

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "digest.h"
#include "report.h"
#include "skillhost_kit.h"
#include "sums.h"
#include "walk.h"

// The maximum number of bytes to read from all files. Guards against: a call that exceeds its time
// limit.
#define MAX_BYTES (128u << 20)
// The default maximum number of files to list.
#define DEFAULT_MAX_RESULTS 100

// The state of a call.
typedef struct {
    report report;
    algorithm algorithm;
    uint64_t bytes_left;
} call_state;

// ---- digests of one file, or of each file in a folder

static bool add_file(void *context, const char *path, int file, int error) {
    call_state *call = context;
    char digest[DIGEST_CAPACITY];
    finding finding = {.path = path, .status = GIVEN, .algorithm = call->algorithm};
    if (report_is_full(&call->report)) {
        call->report.truncated = true;
        return false;
    }
    if (file >= 0)
        error = compute_digest(file, call->algorithm, &call->bytes_left, digest, &finding.size);
    if (file >= 0 && error == EFBIG) {
        call->report.truncated = true;
        return false;
    }
    if (file < 0 || error != 0) {
        finding.status = UNREADABLE;
        finding.reason = sh_reason(error);
    } else {
        finding.digest = digest;
    }
    report_add(&call->report, &finding);
    return true;
}

static bool digest_folder(call_state *call, const sh_folder *folder, const char *path, int opened,
                          sh_answer *answer) {
    if (!walk(folder, path, opened, add_file, call)) call->report.truncated = true;
    return report_answer(&call->report, true, answer);
}

// Computes the digest of one file, and compares it with `expected`, unless that is NULL.
static bool digest_file(call_state *call, const char *path, int file, const char *expected,
                        sh_answer *answer) {
    char digest[DIGEST_CAPACITY];
    finding finding = {.path = path, .algorithm = call->algorithm, .digest = digest};
    int error = compute_digest(file, call->algorithm, &call->bytes_left, digest, &finding.size);
    if (error == EFBIG)
        return sh_fail(answer, SH_UNREADABLE, "%s: larger than %u bytes", path, MAX_BYTES);
    if (error != 0) return sh_fail_path(answer, path, error);
    if (expected != NULL) {
        finding.expected = expected;
        finding.status = strcmp(digest, expected) == 0 ? MATCHES : DIFFERS;
    }
    report_add(&call->report, &finding);
    return report_answer(&call->report, false, answer);
}

// ---- the files of a list

// Returns the finding for a listed file. Writes its digest into `digest`.
static finding check_listed(call_state *call, const sh_folder *folder, const sum *sum,
                            char digest[DIGEST_CAPACITY]) {
    finding finding = {.path = sum->path, .status = UNREADABLE, .algorithm = sum->algorithm,
                       .expected = sum->digest};
    struct stat state;
    int error = 0;
    int file = -1;
    if (sum->path == NULL) {
        finding.path = sum->listed;
        error = EPERM;
    } else if ((file = sh_open(folder, sum->path, NULL)) < 0 || fstat(file, &state) != 0) {
        error = errno;
    } else if (S_ISDIR(state.st_mode)) {
        error = EISDIR;
    } else {
        error = compute_digest(file, sum->algorithm, &call->bytes_left, digest, &finding.size);
    }
    if (file >= 0) close(file);
    if (error == ENOENT || error == ENOTDIR) {
        finding.status = MISSING;
    } else if (error != 0) {
        finding.reason =
            error == EFBIG ? "the files are too large for one call" : sh_reason(error);
    } else {
        finding.digest = digest;
        finding.status = strcmp(digest, sum->digest) == 0 ? MATCHES : DIFFERS;
    }
    return finding;
}

// Returns whether a path is `part`, or a file in the folder `part`.
static bool is_in(const char *path, const char *part) {
    size_t length = strlen(part);
    if (length == 0) return true;
    return path != NULL && strncmp(path, part, length) == 0 &&
           (path[length] == '\0' || path[length] == '/');
}

// Checks the files of a list that are in `part`.
static bool check_list(call_state *call, const sh_folder *folder, const char *list,
                       const char *part, sh_answer *answer) {
    sums sums;
    bool has_files = false;
    if (!sums_read(folder, list, &sums, answer)) return false;
    for (size_t n = 0; n < sums.count; n++) {
        char digest[DIGEST_CAPACITY];
        if (!is_in(sums.sums[n].path, part)) continue;
        has_files = true;
        finding finding = check_listed(call, folder, &sums.sums[n], digest);
        if (finding.status == MATCHES) {
            call->report.counts[MATCHES]++;
        } else {
            report_add(&call->report, &finding);
        }
    }
    if (!has_files) return sh_fail(answer, SH_NOT_FOUND, "%s lists no file in %s", list, part);
    return report_answer(&call->report, true, answer);
}

// ---- the call

// Sets the algorithm from the arguments, or from the length of the expected digest. Returns false
// and fails the answer if `expected` is not a digest of the algorithm.
static bool choose_algorithm(const char *name, const char *expected, call_state *call,
                             sh_answer *answer) {
    call->algorithm = SHA256;
    for (algorithm n = 0; name != NULL && n < ALGORITHM_COUNT; n++)
        if (strcmp(algorithms[n].name, name) == 0) call->algorithm = n;
    if (expected == NULL) return true;
    size_t digits = strlen(expected);
    if (name == NULL && algorithm_with_digits(digits) != ALGORITHM_COUNT)
        call->algorithm = algorithm_with_digits(digits);
    if (digits == algorithms[call->algorithm].digits && count_hex_digits(expected) == digits)
        return true;
    const algorithm_info *sha256 = &algorithms[SHA256], *crc32 = &algorithms[CRC32];
    return sh_fail(answer, SH_INVALID_ARGUMENTS,
                   "expected is not a digest%s%s: %s has %zu hex digits, %s has %zu",
                   name ? " of " : "", name ? name : "", sha256->name, sha256->digits,
                   crc32->name, crc32->digits);
}

// Removes `./` from the beginning and slashes from the end of a path. Returns "" for the skill's
// folder.
static const char *shortened(const char *path) {
    while (path[0] == '.' && path[1] == '/') path++, path += strspn(path, "/");
    if (strcmp(path, ".") == 0) path = "";
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/') length--;
    return strndup(path, length);
}

static bool checksum(const char *arguments, const sh_folder *folder, sh_answer *answer) {
    const char *path = sh_string(arguments, "path");
    const char *list = sh_string(arguments, "sums_file");
    const char *expected = sh_string(arguments, "expected");
    const char *name = sh_string(arguments, "algorithm");
    call_state call = {.bytes_left = MAX_BYTES};
    call.report.max_listed = (int)sh_integer(arguments, "max_results", DEFAULT_MAX_RESULTS);
    if (path == NULL || *path == '\0') path = ".";
    if (list != NULL && (expected != NULL || name != NULL))
        return sh_fail(answer, SH_INVALID_ARGUMENTS,
                       "sums_file already has the expected digests and their algorithm: leave out "
                       "%s", expected ? "expected" : "algorithm");
    if (!choose_algorithm(name, expected, &call, answer)) return false;

    int file = sh_open(folder, path, answer);
    struct stat state;
    if (file < 0) return false;
    if (fstat(file, &state) != 0) return sh_fail_path(answer, path, errno);
    path = shortened(path);
    if (list != NULL) return check_list(&call, folder, list, path, answer);
    if (!S_ISDIR(state.st_mode)) {
        char *lower = expected ? strdup(expected) : NULL;
        for (char *c = lower; c != NULL && *c != '\0'; c++) *c = (char)tolower((unsigned char)*c);
        return digest_file(&call, path, file, lower, answer);
    }
    if (expected != NULL)
        return sh_fail(answer, SH_INVALID_ARGUMENTS,
                       "expected is the digest of one file, and %s is a folder; for several files, "
                       "name a list of digests with sums_file", path);
    return digest_folder(&call, folder, path, file, answer);
}

const sh_tool sh_tools[] = {
    {
        .name = "checksum",
        .title = "Checksums",
        .description =
            "Compute the SHA-256 (or CRC-32) of a file in a skill, or of each file in a folder of "
            "it. With expected or sums_file, check whether files match, and list the files that "
            "differ or are missing.",
        .skill = "skill_name",
        .path = "path",
        .input =
            "{\"type\": \"object\","
            " \"properties\": {"
            "  \"skill_name\": {\"type\": \"string\", \"description\": \"Name of the skill\"},"
            "  \"path\": {\"type\": \"string\","
            "   \"description\": \"File or folder in the skill; all of it, if left out\"},"
            "  \"algorithm\": {\"type\": \"string\", \"enum\": [\"sha256\", \"crc32\"],"
            "   \"description\": \"sha256, if left out\"},"
            "  \"expected\": {\"type\": \"string\","
            "   \"description\": \"The digest, in hex, that the file at path should have\"},"
            "  \"sums_file\": {\"type\": \"string\","
            "   \"description\": \"Path in the skill of a list of digests in the format of "
            "sha256sum (SHA256SUMS): its files are checked, and those that do not match are "
            "listed\"},"
            "  \"max_results\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000,"
            "   \"description\": \"Maximum number of files to list; 100, if left out\"}},"
            " \"required\": [\"skill_name\"]}",
        .output = report_schema,
        .call = checksum,
    },
};
const size_t sh_tool_count = sizeof sh_tools / sizeof sh_tools[0];
