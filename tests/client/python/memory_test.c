/* Memory of batches (client/python/extension/memory.h) without the interpreter:
 * blocks, their pool, memory of the program, forked children, and threads. Under
 * AddressSanitizer it also finds memory that is not freed, under ThreadSanitizer
 * races. */

#define _GNU_SOURCE
#include "client/python/extension/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/testing/check.h"

enum { kPage = 4096, kSmall = 1000, kLarge = 300 << 10, kHuge = 9 << 20 };
/* Large blocks that a pool keeps for later. */
enum { kKept = 6 };

static int IsMapped(const void* page) {
  unsigned char there;
  if (mincore((void*)page, kPage, &there) == 0) return 1;
  CHECK(errno == ENOMEM);
  return 0;
}

static void TestBlocks(void) {
  BlockPool* const pool = millrace_pool_new();
  const uint64_t sizes[] = {0,          1,      63,     64,    kSmall, (128 << 10) - 1,
                            128 << 10,  kLarge, 4 << 20, kHuge};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    Block* const block = millrace_pool_take(pool, sizes[i]);
    CHECK(block != NULL && block->bytes >= sizes[i]);
    CHECK((uintptr_t)block->data % 64 == 0 && block->release == NULL);
    memset(block->data, 0xA5, block->bytes);
    CHECK(millrace_block_keep(block) == block);
    millrace_block_drop(block);
    CHECK(((uint8_t*)block->data)[block->bytes - 1] == 0xA5);
    millrace_block_drop(block);
  }
  CHECK(millrace_pool_take(pool, UINT64_MAX) == NULL);
  CHECK(millrace_pool_take(pool, INT64_MAX - kHuge) == NULL);
  millrace_block_drop(NULL);
  millrace_pool_free(pool);
  millrace_pool_free(NULL);
}

static void TestThePoolReusesLargeBlocksOfTheSize(void) {
  BlockPool* const pool = millrace_pool_new();
  Block* block = millrace_pool_take(pool, kHuge);
  void* const data = block->data;
  millrace_block_drop(block);
  CHECK(IsMapped(data));
  /* A tensor of the half of it or less would keep it all. */
  block = millrace_pool_take(pool, kHuge / 2 - kPage);
  CHECK(block->data != data);
  Block* const other = millrace_pool_take(pool, kHuge - kPage);
  CHECK(other->data == data && other->bytes >= kHuge);
  CHECK(other->references == 1 && other->next == NULL);
  millrace_block_drop(block);
  millrace_block_drop(other);
  millrace_pool_free(pool);
  CHECK(!IsMapped(data));
}

static void TestThePoolKeepsFewBlocks(void) {
  BlockPool* const pool = millrace_pool_new();
  Block* blocks[kKept + 3];
  void* pages[kKept + 3];
  for (int i = 0; i < kKept + 3; ++i) {
    blocks[i] = millrace_pool_take(pool, kLarge);
    pages[i] = blocks[i]->data;
  }
  for (int i = 0; i < kKept + 3; ++i) millrace_block_drop(blocks[i]);
  for (int i = 0; i < kKept + 3; ++i) CHECK(IsMapped(pages[i]) == (i < kKept));
  /* Closed: nothing is kept, and the pool still serves who has it. */
  millrace_pool_end(pool);
  for (int i = 0; i < kKept; ++i) CHECK(!IsMapped(pages[i]));
  Block* const late = millrace_pool_take(pool, kLarge);
  void* const page = late->data;
  millrace_block_drop(late);
  CHECK(!IsMapped(page));
  millrace_pool_end(pool);
  millrace_pool_free(pool);
}

/* ---- Memory of the program --------------------------------------------- */

static atomic_int released;
static void Release(void* owner) {
  atomic_fetch_add(&released, 1);
  free(owner);
}
static Block* Adopted(BlockPool* pool) {
  char* const memory = malloc(kSmall);
  Block* const block =
      millrace_pool_adopt(pool, memory + 8, kSmall - 8, memory, Release);
  CHECK(block->data == memory + 8 && block->owner == memory);
  return block;
}

static void TestMemoryOfTheProgramIsReleasedOnce(void) {
  atomic_store(&released, 0);
  BlockPool* const pool = millrace_pool_new();
  Block* const block = Adopted(pool);
  millrace_block_keep(block);
  millrace_block_drop(block);
  CHECK(atomic_load(&released) == 0);
  memset(block->data, 1, block->bytes);
  millrace_block_drop(block);
  CHECK(atomic_load(&released) == 1);
  millrace_pool_free(pool);
}

static void TestBlocksOutliveTheirPool(void) {
  atomic_store(&released, 0);
  BlockPool* const pool = millrace_pool_new();
  Block* const small = millrace_pool_take(pool, kSmall);
  Block* const large = millrace_pool_take(pool, kLarge);
  Block* const adopted = Adopted(pool);
  millrace_pool_free(pool);
  memset(small->data, 2, kSmall);
  memset(large->data, 3, kLarge);
  void* const page = large->data;
  millrace_block_drop(adopted);
  CHECK(atomic_load(&released) == 1);
  millrace_block_drop(large);
  CHECK(!IsMapped(page));
  millrace_block_drop(small); /* and the pool */
}

static void TestAForkedChildFreesNothing(void) {
  atomic_store(&released, 0);
  BlockPool* const pool = millrace_pool_new();
  Block* const large = millrace_pool_take(pool, kLarge);
  Block* const adopted = Adopted(pool);
  memset(large->data, 4, kLarge);
  const pid_t child = fork();
  if (child == 0) {
    millrace_block_drop(large);
    millrace_block_drop(adopted);
    millrace_pool_end(pool);
    millrace_pool_free(pool);
    _exit(atomic_load(&released) != 0 || ((char*)large->data)[kLarge - 1] != 4);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  millrace_block_drop(adopted);
  CHECK(atomic_load(&released) == 1);
  millrace_block_drop(large);
  millrace_pool_free(pool);
}

/* ---- Threads ------------------------------------------------------------ */

/* Blocks go from threads that take and fill them to threads that drop them, as
 * from the loop to a framework, while another thread ends the pool. */
enum { kThreads = 3, kRounds = 2000, kSlots = 16 };
static _Atomic(Block*) slots[kSlots];
static atomic_int adopted_count;

static void* Give(void* context) {
  BlockPool* const pool = context;
  for (int round = 0; round < kRounds; ++round) {
    Block* const block =
        round % 5 == 0 ? Adopted(pool)
                       : millrace_pool_take(pool, round % 2 ? kSmall : kLarge);
    if (round % 5 == 0) atomic_fetch_add(&adopted_count, 1);
    memset(block->data, round, 64);
    millrace_block_keep(block);
    /* Who takes it away drops one reference, this thread the other one. */
    millrace_block_drop(atomic_exchange(&slots[round % kSlots], block));
    millrace_block_drop(block);
  }
  return NULL;
}

static void* Take(void* context) {
  (void)context;
  for (int round = 0; round < kRounds; ++round) {
    Block* const block = atomic_exchange(&slots[round % kSlots], NULL);
    if (block == NULL) continue;
    const uint8_t first = *(uint8_t*)block->data;
    CHECK(((uint8_t*)block->data)[63] == first);
    millrace_block_drop(block);
  }
  return NULL;
}

static void TestThreads(void) {
  atomic_store(&released, 0);
  BlockPool* const pool = millrace_pool_new();
  pthread_t givers[kThreads];
  pthread_t takers[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&givers[i], NULL, Give, pool) == 0);
    CHECK(pthread_create(&takers[i], NULL, Take, NULL) == 0);
  }
  millrace_pool_end(pool);
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_join(givers[i], NULL) == 0);
    CHECK(pthread_join(takers[i], NULL) == 0);
  }
  millrace_pool_free(pool);
  for (int i = 0; i < kSlots; ++i) millrace_block_drop(atomic_load(&slots[i]));
  CHECK(atomic_load(&released) == atomic_load(&adopted_count));
}

int main(void) {
  TestBlocks();
  TestThePoolReusesLargeBlocksOfTheSize();
  TestThePoolKeepsFewBlocks();
  TestMemoryOfTheProgramIsReleasedOnce();
  TestBlocksOutliveTheirPool();
  TestAForkedChildFreesNothing();
  TestThreads();
  return 0;
}
