/* Room support: what the other rooms of the harness stand on. It knows no format, no case and no command.
 *
 *   child                  Child processes: all that starts, reads, limits, waits for and kills them.
 *   apart                  A list of items that are each done in a child.
 *   interrupt              Ctrl-C and SIGTERM are noted, so that a command can keep what it has.
 *   guard, tensor_set      Tensors lie between canary bytes and unmapped pages, which show a stray write.
 *   json_out               The text of a JSON value, for a line, a file or stdout.
 *   json_schema            What the printers of JSON Schemas share: lists of names, lines for people.
 *   whole_file, used_files A file appears whole or not at all. No file is written that a command also reads.
 *   mma_tile               Where the operands of a tile of op mma lie.
 *   clock, exit_code, version, commit
 *
 * The room includes no other room of the harness. */
#ifndef KVG_HARNESS_SUPPORT_SUPPORT_H
#define KVG_HARNESS_SUPPORT_SUPPORT_H
#endif
