/* Room data: the tensors of a case, and what their bytes mean.
 *
 *   case_data              The inputs of a case, and the K and V rows that an answer stands for, whatever the op.
 *   fill, mma_fill         Values of K and V by the case's fill, and inputs of op mma.
 *   mma_inputs             The classes of numbers that op mma is asked with.
 *   paged_fill             Who owns which block: block tables, lengths, slots.
 *   query_fill             What op decode has beside a cache: q, query lengths, sinks.
 *   decode_probes          Fills of op decode whose answer follows without a reference.
 *   places, describe       To which coordinates a byte of an answer belongs; the same in words.
 *
 * The data of a case depend on its seed and its id alone. */
#ifndef KVG_HARNESS_DATA_DATA_H
#define KVG_HARNESS_DATA_DATA_H
#endif
