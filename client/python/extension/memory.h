/* Memory of batches: blocks with a count of references, and a pool that reuses
 * them. A block goes back to its pool when its last reference is dropped, also
 * after the loader is gone. A block may also lie over memory of the program,
 * which is used once and then given back.
 *
 * What it is not: it knows nothing of Python. Tensors that a framework holds
 * refer to blocks, and a framework frees tensors on any thread, without the
 * interpreter.
 *
 * Thread-safe, except millrace_pool_free(). In a forked child, dropping a last
 * reference does nothing: another thread of the parent may have held the lock
 * of the pool.
 *
 *   Block* block = millrace_pool_take(pool, bytes);
 *   ... fill block->data ...
 *   millrace_block_drop(block); */

#ifndef MILLRACE_CLIENT_PYTHON_EXTENSION_MEMORY_H_
#define MILLRACE_CLIENT_PYTHON_EXTENSION_MEMORY_H_

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct BlockPool BlockPool;

typedef struct Block {
  atomic_int references;
  BlockPool* pool;
  void* data;     /* aligned to 64 bytes; of the program: as it is */
  uint64_t bytes; /* at least what was asked for */
  /* Of the program: what has the memory, and how it is given back. NULL: the
   * memory is the pool's. */
  void* owner;
  void (*release)(void* owner);
  struct Block* next; /* of a list of the owner, or of the pool */
} Block;

/* NULL: no memory. */
BlockPool* millrace_pool_new(void);
/* The pool keeps no block for later any more. */
void millrace_pool_end(BlockPool* pool);
/* The pool itself ends with its last block. NULL: no effect. */
void millrace_pool_free(BlockPool* pool);

/* A block with one reference. NULL: no memory. */
Block* millrace_pool_take(BlockPool* pool, uint64_t bytes);

/* A block over memory of the program, with one reference. The thread that drops
 * the last one calls release(owner). NULL: no memory; nothing was released. */
Block* millrace_pool_adopt(BlockPool* pool, void* data, uint64_t bytes,
                           void* owner, void (*release)(void* owner));

Block* millrace_block_keep(Block* block);
void millrace_block_drop(Block* block);

#endif /* MILLRACE_CLIENT_PYTHON_EXTENSION_MEMORY_H_ */
