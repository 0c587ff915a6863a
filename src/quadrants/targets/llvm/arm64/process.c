/* A process that runs kernels for another one: it loads their libraries, runs them on copies of memory that come through
   a pipe, and offers what compiled code calls (see runtime/threads.py for the contract of each symbol).

   Words are of 64 bits, little-endian. Requests on descriptor 0:
     LOAD  length, path, length, symbol
     RUN   entry, threads, frame bytes, frame, pieces, { bytes, wanted back } each, content of each,
           patches, { place in the frame, piece, place in the piece } each
   Answers on descriptor 1, as many as a request gives rise to, the last of them DONE or REFUSED:
     DONE    LOAD: the symbol's address; RUN: the status, the frame, the pieces that are wanted back
     REFUSED length, reason
     PRINT   length, record
     FAIL    message, count, values
     RANDOM  wants one word: the next number of the stream
   The process ends with the pipe. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LOAD = 1, RUN = 2 };
enum { DONE = 0, REFUSED = 1, PRINT = 2, FAIL = 3, RANDOM = 4 };

typedef int64_t word;
typedef void (*task_function)(void *frame, void *captures, word begin, word end);

/* The pipe. Whoever writes an answer holds the lock until it is complete. */

static pthread_mutex_t pipe_lock = PTHREAD_MUTEX_INITIALIZER;

static void take(void *target, size_t size) {
    for (char *at = target; size;) {
        ssize_t got = read(0, at, size);
        if (got <= 0) _exit(got < 0);
        at += got;
        size -= (size_t)got;
    }
}

static word take_word(void) {
    word value;
    take(&value, sizeof value);
    return value;
}

static void give(const void *source, size_t size) {
    for (const char *at = source; size;) {
        ssize_t gone = write(1, at, size);
        if (gone < 0) _exit(1);
        at += gone;
        size -= (size_t)gone;
    }
}

static void give_word(word value) { give(&value, sizeof value); }

static void refuse(const char *reason) {
    give_word(REFUSED);
    give_word((word)strlen(reason));
    give(reason, strlen(reason));
}

/* What compiled code calls. */

static int failed;

void *qd_allocate(word size) { return aligned_alloc(64, (size_t)(size < 1 ? 64 : (size + 63) & -64)); }

void qd_release(void *memory) { free(memory); }

void qd_print(const void *record, word size) {
    pthread_mutex_lock(&pipe_lock);
    give_word(PRINT);
    give_word(size);
    give(record, (size_t)size);
    pthread_mutex_unlock(&pipe_lock);
}

void qd_fail(word message, const word *values, word count) {
    if (__atomic_exchange_n(&failed, 1, __ATOMIC_ACQ_REL)) return;
    pthread_mutex_lock(&pipe_lock);
    give_word(FAIL);
    give_word(message);
    give_word(count);
    if (count > 0) give(values, (size_t)count * sizeof *values);
    pthread_mutex_unlock(&pipe_lock);
}

int32_t qd_status(void) { return __atomic_load_n(&failed, __ATOMIC_ACQUIRE); }

word qd_random(void) {
    pthread_mutex_lock(&pipe_lock);
    give_word(RANDOM);
    word bits = take_word();
    pthread_mutex_unlock(&pipe_lock);
    return bits;
}

/* Parallel loops: threads of one loop, which take chunks from a counter; the caller takes part. Small loops and loops
   inside loops run on the thread that asks. */

enum { MOST_THREADS = 64, SMALL_WORK = 20000, PIECE = 64 };
static const size_t WORKER_STACK_BYTES = 64u << 20;

struct loop {
    task_function task;
    void *frame, *captures;
    word count, chunk, next;
};

static word thread_count = 1;
static int busy;

static void *work(void *argument) {
    struct loop *loop = argument;
    for (;;) {
        word begin = __atomic_fetch_add(&loop->next, loop->chunk, __ATOMIC_RELAXED);
        if (begin >= loop->count) return NULL;
        word end = loop->count - begin < loop->chunk ? loop->count : begin + loop->chunk;
        loop->task(loop->frame, loop->captures, begin, end);
    }
}

/* Runs the chunks of a loop; tells whether several threads did. */
static int run_loop(struct loop *loop, word cost) {
    pthread_t threads[MOST_THREADS];
    pthread_attr_t attributes;
    int started = 0;
    word limit = (word)1 << 40, longest = (word)1 << 20;
    word work_ns = (loop->count < limit ? loop->count : limit) * (cost < 1 ? 1 : cost < longest ? cost : longest);
    word chunks = (loop->count - 1) / loop->chunk + 1;
    word wanted = chunks < thread_count ? chunks : thread_count;
    int mine = work_ns >= SMALL_WORK && wanted > 1 && !__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE);
    if (mine) {
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES);
        while (started + 1 < wanted && !pthread_create(&threads[started], &attributes, work, loop)) started++;
        pthread_attr_destroy(&attributes);
    }
    work(loop);
    for (int k = 0; k < started; k++) pthread_join(threads[k], NULL);
    if (mine) __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    return started > 0;
}

static word free_chunk(word count) {
    word chunk = count / (thread_count * 4);
    return thread_count == 1 ? count : chunk < PIECE ? PIECE : chunk & -PIECE;
}

void qd_parallel_for(task_function task, void *frame, void *captures, word count, word chunk, word cost) {
    if (count <= 0) return;
    struct loop loop = {task, frame, captures, count, chunk > 0 ? chunk : free_chunk(count), 0};
    run_loop(&loop, cost);
}

word qd_parallel_scatter(task_function plain, task_function atomic, void *frame, word frame_size, void *captures,
                         word count, word cost, const void *table, word table_length, word updates) {
    (void)frame_size, (void)table, (void)table_length, (void)updates;
    if (count <= 0) return 0;
    int alone = thread_count == 1 && !__atomic_load_n(&busy, __ATOMIC_RELAXED);
    struct loop loop = {alone ? plain : atomic, frame, captures, count, free_chunk(count), 0};
    run_loop(&loop, cost);
    return alone ? 0 : 2;
}

/* Requests. */

struct piece {
    char *memory;
    word size, wanted;
};

static char *take_text(void) {
    word size = take_word();
    char *text = malloc((size_t)size + 1);
    if (!text) _exit(1);
    take(text, (size_t)size);
    text[size] = 0;
    return text;
}

static void load(void) {
    char *path = take_text(), *symbol = take_text();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, symbol) : NULL;
    if (entry) {
        give_word(DONE);
        give_word((word)entry);
    } else {
        refuse(dlerror());
    }
    free(path);
    free(symbol);
}

/* Memory on a cache line, with zeros behind it that vectors may read. */
static char *room_for(word size) {
    size_t whole = (size_t)((size + 63) & -64) + 64;
    char *memory = aligned_alloc(64, whole);
    if (memory) memset(memory + size, 0, whole - (size_t)size);
    return memory;
}

static void skip(word size) {
    char rest[4096];
    for (; size > 0; size -= (word)sizeof rest) take(rest, size < (word)sizeof rest ? (size_t)size : sizeof rest);
}

static void run(void) {
    int32_t (*entry)(void *) = (int32_t (*)(void *))take_word();
    word threads = take_word(), frame_size = take_word();
    char *frame = room_for(frame_size);
    if (!frame) _exit(1);
    take(frame, (size_t)frame_size);
    word count = take_word(), missing = 0;
    struct piece *pieces = calloc((size_t)count + 1, sizeof *pieces);
    if (!pieces) _exit(1);
    for (word k = 0; k < count; k++) {
        pieces[k].size = take_word();
        pieces[k].wanted = take_word();
    }
    for (word k = 0; k < count; k++) {
        pieces[k].memory = room_for(pieces[k].size);
        if (pieces[k].memory) {
            take(pieces[k].memory, (size_t)pieces[k].size);
        } else {
            missing += pieces[k].size;
            skip(pieces[k].size);
        }
    }
    for (word patches = take_word(); patches > 0; patches--) {
        word place = take_word(), piece = take_word(), offset = take_word();
        char *address = pieces[piece].memory + offset;
        memcpy(frame + place, &address, sizeof address);
    }
    if (missing) {
        char reason[80];
        snprintf(reason, sizeof reason, "there is no memory for %lld bytes of arrays", (long long)missing);
        refuse(reason);
    } else {
        thread_count = threads < 1 ? 1 : threads < MOST_THREADS ? threads : MOST_THREADS;
        failed = 0;
        int32_t status = entry(frame);
        give_word(DONE);
        give_word(status);
        give(frame, (size_t)frame_size);
        for (word k = 0; k < count; k++)
            if (pieces[k].wanted) give(pieces[k].memory, (size_t)pieces[k].size);
    }
    for (word k = 0; k < count; k++) free(pieces[k].memory);
    free(pieces);
    free(frame);
}

static void *serve(void *unused) {
    for (;;) {
        word request = take_word();
        if (request == LOAD) load();
        else if (request == RUN) run();
        else _exit(2);
    }
    return unused;
}

/* Kernels have a stack of their own: recursion has as much room as on a host's thread. */
int main(void) {
    pthread_t server;
    pthread_attr_t attributes;
    struct rlimit no_dump = {0, 0};
    setrlimit(RLIMIT_CORE, &no_dump);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES);
    if (pthread_create(&server, &attributes, serve, NULL)) return 3;
    pthread_join(server, NULL);
    return 0;
}
