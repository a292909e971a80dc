#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Names that are looked at. Meets: a folder with a million of them.
#define ENTRIES 10000
// Folders in folders. Meets: recursion.
#define DEPTH 32

typedef struct {
    const sh_folder *folder;
    visit visit;
    void *context;
    int entries;
    bool cut;
    bool ended;
    // The folders that the walk is in: a folder in itself, by a symlink, has no end.
    ino_t above[DEPTH];
    int depth;
} state;

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// The names in a folder, sorted.
static char **names_in(state *walk, DIR *folder, size_t *count, int *error) {
    char **names = NULL;
    struct dirent *entry;
    *count = 0;
    while (errno = 0, (entry = readdir(folder)) != NULL) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (walk->entries == ENTRIES) {
            walk->cut = true;
            break;
        }
        walk->entries++;
        if (*count % 64 == 0) names = realloc(names, (*count + 64) * sizeof *names);
        if (names == NULL || (names[*count] = strdup(name)) == NULL) abort();
        ++*count;
    }
    *error = errno;
    if (*count > 0) qsort(names, *count, sizeof *names, by_name);
    return names;
}

static void into(state *walk, const char *path, int opened, const struct stat *stat);

static void look_at(state *walk, const char *path) {
    struct stat stat;
    int file = sh_open(walk->folder, path, NULL);
    int error = errno;
    if (file >= 0 && fstat(file, &stat) != 0) {
        error = errno;
        close(file);
        file = -1;
    }
    if (file >= 0 && S_ISDIR(stat.st_mode)) {
        into(walk, path, file, &stat);
        return;
    }
    if (!walk->visit(walk->context, path, file, error)) walk->ended = true;
    if (file >= 0) close(file);
}

// Takes the open folder over.
static void into(state *walk, const char *path, int opened, const struct stat *stat) {
    for (int n = 0; n < walk->depth; n++) {
        if (walk->above[n] == stat->st_ino) {
            close(opened);
            return;
        }
    }
    if (walk->depth == DEPTH) {
        walk->cut = true;
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
        walk->cut = true;
        if (!walk->visit(walk->context, *path ? path : ".", -1, error)) walk->ended = true;
    }
    walk->above[walk->depth++] = stat->st_ino;
    for (size_t i = 0; i < count; i++) {
        sh_buffer below = {0};
        sh_append(&below, path, strlen(path));
        if (*path != '\0') sh_append(&below, "/", 1);
        sh_append(&below, names[i], strlen(names[i]) + 1);
        if (!walk->ended) look_at(walk, below.bytes);
        free(below.bytes);
        free(names[i]);
    }
    walk->depth--;
    free(names);
}

bool walk(const sh_folder *folder, const char *path, int opened, visit visit, void *context) {
    state walk = {.folder = folder, .visit = visit, .context = context};
    struct stat stat;
    if (fstat(opened, &stat) == 0) into(&walk, path, opened, &stat);
    return !walk.cut && !walk.ended;
}
