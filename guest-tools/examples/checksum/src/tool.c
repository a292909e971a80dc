// The tool checksum: digests of a skill's files, and whether they are those that they should be.
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

// Bytes of all files together. Meets: a call that takes longer than it may.
#define BYTES (128u << 20)
// Files that are shown, where the call does not say how many.
#define RESULTS 100

typedef struct {
    report report;
    algorithm algorithm;
    uint64_t left;
} work;

// ---- digests of one file, or of each below a folder

static bool add_file(void *context, const char *path, int file, int error) {
    work *work = context;
    char digest[DIGEST_ROOM];
    finding found = {.path = path, .status = GIVEN, .algorithm = work->algorithm};
    if (report_full(&work->report)) {
        work->report.truncated = true;
        return false;
    }
    if (file >= 0) error = digest_of(file, work->algorithm, &work->left, digest, &found.size);
    if (file >= 0 && error == EFBIG) {
        work->report.truncated = true;
        return false;
    }
    if (file < 0 || error != 0) {
        found.status = UNREADABLE;
        found.reason = sh_reason(error);
    } else {
        found.digest = digest;
    }
    report_add(&work->report, &found);
    return true;
}

static bool list_folder(work *work, const sh_folder *folder, const char *path, int opened,
                        sh_answer *answer) {
    if (!walk(folder, path, opened, add_file, work)) work->report.truncated = true;
    return report_end(&work->report, true, answer);
}

// `expected` may be NULL.
static bool one_file(work *work, const char *path, int file, const char *expected,
                     sh_answer *answer) {
    char digest[DIGEST_ROOM];
    finding found = {.path = path, .algorithm = work->algorithm, .digest = digest};
    int error = digest_of(file, work->algorithm, &work->left, digest, &found.size);
    if (error == EFBIG)
        return sh_fail(answer, SH_UNREADABLE, "%s: larger than %u bytes", path, BYTES);
    if (error != 0) return sh_fail_path(answer, path, error);
    if (expected != NULL) {
        found.expected = expected;
        found.status = strcmp(digest, expected) == 0 ? MATCHES : DIFFERS;
    }
    report_add(&work->report, &found);
    return report_end(&work->report, false, answer);
}

// ---- the files of a list

// What became of a listed file.
static finding look_up(work *work, const sh_folder *folder, const sum *sum,
                       char digest[DIGEST_ROOM]) {
    finding found = {.path = sum->path, .status = UNREADABLE, .algorithm = sum->algorithm,
                     .expected = sum->digest};
    struct stat state;
    int error = 0;
    int file = -1;
    if (sum->path == NULL) {
        found.path = sum->listed;
        error = EPERM;
    } else if ((file = sh_open(folder, sum->path, NULL)) < 0 || fstat(file, &state) != 0) {
        error = errno;
    } else if (S_ISDIR(state.st_mode)) {
        error = EISDIR;
    } else {
        error = digest_of(file, sum->algorithm, &work->left, digest, &found.size);
    }
    if (file >= 0) close(file);
    if (error == ENOENT || error == ENOTDIR) {
        found.status = MISSING;
    } else if (error != 0) {
        found.reason = error == EFBIG ? "too much to read in one call" : sh_reason(error);
    } else {
        found.digest = digest;
        found.status = strcmp(digest, sum->digest) == 0 ? MATCHES : DIFFERS;
    }
    return found;
}

// Whether a listed file is `part`, or lies below it.
static bool lies_in(const char *path, const char *part) {
    size_t length = strlen(part);
    if (length == 0) return true;
    return path != NULL && strncmp(path, part, length) == 0 &&
           (path[length] == '\0' || path[length] == '/');
}

static bool check_list(work *work, const sh_folder *folder, const char *list, const char *part,
                       sh_answer *answer) {
    sums sums;
    bool any = false;
    if (!sums_read(folder, list, &sums, answer)) return false;
    for (size_t n = 0; n < sums.count; n++) {
        char digest[DIGEST_ROOM];
        if (!lies_in(sums.sums[n].path, part)) continue;
        any = true;
        finding found = look_up(work, folder, &sums.sums[n], digest);
        if (found.status == MATCHES) {
            work->report.counts[MATCHES]++;
        } else {
            report_add(&work->report, &found);
        }
    }
    if (!any) return sh_fail(answer, SH_NOT_FOUND, "%s lists no file in %s", list, part);
    return report_end(&work->report, true, answer);
}

// ---- the call

// Takes the algorithm from the arguments, or from the digest that is expected.
static bool choose_algorithm(const char *name, const char *expected, work *work,
                             sh_answer *answer) {
    work->algorithm = SHA256;
    for (algorithm n = 0; name != NULL && n < ALGORITHMS; n++)
        if (strcmp(algorithm_of[n].name, name) == 0) work->algorithm = n;
    if (expected == NULL) return true;
    size_t digits = strlen(expected);
    if (name == NULL && by_digits(digits) != ALGORITHMS) work->algorithm = by_digits(digits);
    if (digits == algorithm_of[work->algorithm].digits && hex_digits(expected) == digits)
        return true;
    const algorithm_facts *sha256 = &algorithm_of[SHA256], *crc32 = &algorithm_of[CRC32];
    return sh_fail(answer, SH_INVALID_ARGUMENTS,
                   "expected is no digest%s%s: %s has %zu hex digits, %s has %zu",
                   name ? " by " : "", name ? name : "", sha256->name, sha256->digits,
                   crc32->name, crc32->digits);
}

// A path as paths below it begin: "" for the skill's folder.
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
    work work = {.left = BYTES};
    work.report.most = (int)sh_integer(arguments, "max_results", RESULTS);
    if (path == NULL || *path == '\0') path = ".";
    if (list != NULL && (expected != NULL || name != NULL))
        return sh_fail(answer, SH_INVALID_ARGUMENTS,
                       "sums_file says itself which digests are expected and by which algorithm: "
                       "leave out %s", expected ? "expected" : "algorithm");
    if (!choose_algorithm(name, expected, &work, answer)) return false;

    int file = sh_open(folder, path, answer);
    struct stat state;
    if (file < 0) return false;
    if (fstat(file, &state) != 0) return sh_fail_path(answer, path, errno);
    path = shortened(path);
    if (list != NULL) return check_list(&work, folder, list, path, answer);
    if (!S_ISDIR(state.st_mode)) {
        char *lower = expected ? strdup(expected) : NULL;
        for (char *c = lower; c != NULL && *c != '\0'; c++) *c = (char)tolower((unsigned char)*c);
        return one_file(&work, path, file, lower, answer);
    }
    if (expected != NULL)
        return sh_fail(answer, SH_INVALID_ARGUMENTS,
                       "expected is the digest of one file, and %s is a folder; for several files, "
                       "name a list of digests with sums_file", path);
    return list_folder(&work, folder, path, file, answer);
}

const sh_tool sh_tools[] = {
    {
        .name = "checksum",
        .title = "Checksums",
        .description =
            "Give the SHA-256 (or CRC-32) of a file in a skill, or of each file below a folder of "
            "it. With expected or sums_file, say whether files are what they should be, and which "
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
            "   \"description\": \"Path in the skill of a list of digests, as sha256sum writes "
            "them (SHA256SUMS): the files that it names are checked, and those that do not match "
            "are given\"},"
            "  \"max_results\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000,"
            "   \"description\": \"Most files to give; 100, if left out\"}},"
            " \"required\": [\"skill_name\"]}",
        .output = report_schema,
        .call = checksum,
    },
};
const size_t sh_tool_count = sizeof sh_tools / sizeof sh_tools[0];
