#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The maximum number of names to read. Guards against: a folder with a million names.
#define MAX_ENTRIES 10000
// The maximum depth of folders. Guards against: a stack overflow.
#define MAX_DEPTH 32

typedef struct {
    const sh_folder *folder;
    visit visit;
    void *context;
    int entry_count;
    // True if a limit or an error left something out.
    bool is_truncated;
    // True if `visit` has ended the walk.
    bool is_ended;
    // The folders that contain the current one. A symlink can make a folder contain itself.
    ino_t parents[MAX_DEPTH];
    int depth;
} state;

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Returns the names in a folder, sorted.
static char **names_in(state *walk, DIR *folder, size_t *count, int *error) {
    char **names = NULL;
    struct dirent *entry;
    *count = 0;
    while (errno = 0, (entry = readdir(folder)) != NULL) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (walk->entry_count == MAX_ENTRIES) {
            walk->is_truncated = true;
            break;
        }
        walk->entry_count++;
        if (*count % 64 == 0) names = realloc(names, (*count + 64) * sizeof *names);
        if (names == NULL || (names[*count] = strdup(name)) == NULL) abort();
        ++*count;
    }
    *error = errno;
    if (*count > 0) qsort(names, *count, sizeof *names, by_name);
    return names;
}

static void visit_folder(state *walk, const char *path, int opened, const struct stat *stat);

static void visit_entry(state *walk, const char *path) {
    struct stat stat;
    int file = sh_open(walk->folder, path, NULL);
    int error = errno;
    if (file >= 0 && fstat(file, &stat) != 0) {
        error = errno;
        close(file);
        file = -1;
    }
    if (file >= 0 && S_ISDIR(stat.st_mode)) {
        visit_folder(walk, path, file, &stat);
        return;
    }
    if (!walk->visit(walk->context, path, file, error)) walk->is_ended = true;
    if (file >= 0) close(file);
}

// Visits the files in an open folder, and closes it.
static void visit_folder(state *walk, const char *path, int opened, const struct stat *stat) {
    for (int n = 0; n < walk->depth; n++) {
        if (walk->parents[n] == stat->st_ino) {
            close(opened);
            return;
        }
    }
    if (walk->depth == MAX_DEPTH) {
        walk->is_truncated = true;
        close(opened);
        return;
    }
    size_t count = 0;
    int error = 0;
    char **names = NULL;
    DIR *folder = fdopendir(opened);
    if (folder == NULL) {
        error = errno;
        close(opened);
    } else {
        names = names_in(walk, folder, &count, &error);
        closedir(folder);
    }
    if (error != 0) {
        walk->is_truncated = true;
        if (!walk->visit(walk->context, *path ? path : ".", -1, error)) walk->is_ended = true;
    }
    walk->parents[walk->depth++] = stat->st_ino;
    for (size_t i = 0; i < count; i++) {
        sh_buffer entry_path = {0};
        sh_append(&entry_path, path, strlen(path));
        if (*path != '\0') sh_append(&entry_path, "/", 1);
        sh_append(&entry_path, names[i], strlen(names[i]) + 1);
        if (!walk->is_ended) visit_entry(walk, entry_path.bytes);
        free(entry_path.bytes);
        free(names[i]);
    }
    walk->depth--;
    free(names);
}

bool walk(const sh_folder *folder, const char *path, int opened, visit visit, void *context) {
    state walk = {.folder = folder, .visit = visit, .context = context};
    struct stat stat;
    if (fstat(opened, &stat) == 0) visit_folder(&walk, path, opened, &stat);
    return !walk.is_truncated && !walk.is_ended;
}
