#include "client/python/extension/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

/* Free blocks that a pool keeps. A program that holds one batch at a time needs
 * two; what a program frees at once after it has kept many batches goes back to
 * the system. */
enum { kMaxFree = 4, kAlignment = 64 };

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

static void FreeBlock(Block* block) {
  BlockPool* const pool = block->pool;
  free(block->data);
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

void millrace_pool_free(BlockPool* pool) {
  if (pool == NULL || pool->home != getpid()) return;
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
  }
  pthread_mutex_unlock(&pool->lock);
  if (block == NULL) {
    if (bytes > UINT64_MAX - 2 * kAlignment) return NULL;
    const uint64_t rounded =
        (bytes + kAlignment) / kAlignment * kAlignment; /* never 0 */
    block = calloc(1, sizeof(Block));
    if (block == NULL) return NULL;
    block->data = aligned_alloc(kAlignment, rounded);
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

Block* millrace_block_keep(Block* block) {
  atomic_fetch_add(&block->references, 1);
  return block;
}

void millrace_block_drop(Block* block) {
  if (block == NULL || block->pool->home != getpid()) return;
  if (atomic_fetch_sub(&block->references, 1) != 1) return;
  BlockPool* const pool = block->pool;
  pthread_mutex_lock(&pool->lock);
  const int keep = !pool->ended && pool->free_count < kMaxFree;
  if (keep) {
    block->next = pool->free_blocks;
    pool->free_blocks = block;
    ++pool->free_count;
  }
  pthread_mutex_unlock(&pool->lock);
  if (!keep) FreeBlock(block);
}
