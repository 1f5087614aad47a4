#define _GNU_SOURCE
#include "client/python/extension/memory.h"

#include <pthread.h>
#include <sanitizer/asan_interface.h> /* macros without effect in other builds */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

/* Large blocks that a pool keeps. A program that holds one batch at a time
 * needs one for each large tensor and one for the batch itself; what a program
 * frees at once after it has kept many batches goes back to the system. malloc
 * keeps small ones. */
enum { kMaxFree = 6, kAlignment = 64, kPage = 4096 };

struct BlockPool {
  pid_t home;            /* the process that has made it */
  atomic_int references; /* the owner, and each block */
  pthread_mutex_t lock;
  Block* free_blocks; /* guarded by lock */
  int free_count;     /* guarded by lock */
  int ended;          /* guarded by lock: nothing is kept any more */
};

static void DropPool(BlockPool* pool) {
  if (atomic_fetch_sub(&pool->references, 1) != 1) return;
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

/* Large blocks go back to the system when they are freed: malloc would keep
 * them, each thread's heap for itself. */
enum { kMinMapped = 128 << 10, kHugePage = 2 << 20 };

static uint64_t RoundedUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

static void* AllocateData(uint64_t bytes) {
  if (bytes < kMinMapped) return aligned_alloc(kAlignment, bytes);
  const int huge = bytes >= 2 * kHugePage;
  const uint64_t spare = huge ? kHugePage : 0;
  uint8_t* const map = mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return NULL;
  if (!huge) return map;
  /* Whole huge pages take one page fault instead of 512. */
  const uint64_t before = RoundedUp((uintptr_t)map, kHugePage) - (uintptr_t)map;
  if (before > 0) munmap(map, before);
  if (spare > before) munmap(map + before + bytes, spare - before);
  madvise(map + before, bytes, MADV_HUGEPAGE);
  return map + before;
}

static void FreeData(void* data, uint64_t bytes) {
  if (bytes < kMinMapped) {
    free(data);
  } else {
    munmap(data, bytes);
  }
}

static void FreeBlock(Block* block) {
  BlockPool* const pool = block->pool;
  if (block->release != NULL) {
    block->release(block->owner);
  } else {
    ASAN_UNPOISON_MEMORY_REGION(block->data, block->bytes);
    FreeData(block->data, block->bytes);
  }
  free(block);
  DropPool(pool);
}

BlockPool* millrace_pool_new(void) {
  BlockPool* const pool = calloc(1, sizeof(BlockPool));
  if (pool == NULL) return NULL;
  pool->home = getpid();
  atomic_init(&pool->references, 1);
  pthread_mutex_init(&pool->lock, NULL);
  return pool;
}

void millrace_pool_end(BlockPool* pool) {
  if (pool->home != getpid()) return;
  pthread_mutex_lock(&pool->lock);
  Block* list = pool->free_blocks;
  pool->free_blocks = NULL;
  pool->free_count = 0;
  pool->ended = 1;
  pthread_mutex_unlock(&pool->lock);
  while (list != NULL) {
    Block* const next = list->next;
    FreeBlock(list);
    list = next;
  }
}

void millrace_pool_free(BlockPool* pool) {
  if (pool == NULL || pool->home != getpid()) return;
  millrace_pool_end(pool);
  DropPool(pool);
}

Block* millrace_pool_take(BlockPool* pool, uint64_t bytes) {
  pthread_mutex_lock(&pool->lock);
  Block** place = &pool->free_blocks;
  /* One that is much too large would keep its memory for a small tensor. */
  while (*place != NULL &&
         ((*place)->bytes < bytes || (*place)->bytes / 2 > bytes)) {
    place = &(*place)->next;
  }
  Block* block = *place;
  if (block != NULL) {
    *place = block->next;
    --pool->free_count;
    ASAN_UNPOISON_MEMORY_REGION(block->data, block->bytes);
  }
  pthread_mutex_unlock(&pool->lock);
  if (block == NULL) {
    if (bytes > INT64_MAX) return NULL;
    /* Never 0; whole pages for mmap. */
    const uint64_t rounded = bytes + 1 < kMinMapped
                                 ? RoundedUp(bytes + 1, kAlignment)
                                 : RoundedUp(bytes, kPage);
    block = calloc(1, sizeof(Block));
    if (block == NULL) return NULL;
    block->data = AllocateData(rounded);
    if (block->data == NULL) {
      free(block);
      return NULL;
    }
    block->bytes = rounded;
    block->pool = pool;
    atomic_fetch_add(&pool->references, 1);
  }
  block->next = NULL;
  atomic_store(&block->references, 1);
  return block;
}

Block* millrace_pool_adopt(BlockPool* pool, void* data, uint64_t bytes,
                           void* owner, void (*release)(void* owner)) {
  Block* const block = calloc(1, sizeof(Block));
  if (block == NULL) return NULL;
  block->data = data;
  block->bytes = bytes;
  block->owner = owner;
  block->release = release;
  block->pool = pool;
  atomic_fetch_add(&pool->references, 1);
  atomic_store(&block->references, 1);
  return block;
}

Block* millrace_block_keep(Block* block) {
  atomic_fetch_add(&block->references, 1);
  return block;
}

void millrace_block_drop(Block* block) {
  if (block == NULL || block->pool->home != getpid()) return;
  if (atomic_fetch_sub(&block->references, 1) != 1) return;
  BlockPool* const pool = block->pool;
  if (block->release != NULL) {
    FreeBlock(block);
    return;
  }
  pthread_mutex_lock(&pool->lock);
  const int keep =
      block->bytes >= kMinMapped && !pool->ended && pool->free_count < kMaxFree;
  if (keep) {
    /* A use of memory that is free is then an error of AddressSanitizer, which
     * does not see the blocks of a pool by itself. */
    ASAN_POISON_MEMORY_REGION(block->data, block->bytes);
    block->next = pool->free_blocks;
    pool->free_blocks = block;
    ++pool->free_count;
  }
  pthread_mutex_unlock(&pool->lock);
  if (!keep) FreeBlock(block);
}
