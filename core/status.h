/* Status codes and the error text that goes with them.
 *
 * Every fallible function returns a kvg_status that must be checked. On failure it leaves one line in a
 * thread-local buffer: what went wrong, where, and what to do. The library never prints, exits or aborts. */
#ifndef KVG_CORE_STATUS_H
#define KVG_CORE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvg_status {
    KVG_OK = 0,
    KVG_ERR_INVALID = 1,       /* an argument, a config or a file contradicts its contract */
    KVG_ERR_UNIMPLEMENTED = 2, /* well-formed, but this implementation does not do it */
    KVG_ERR_MEMORY = 3,        /* an allocation failed */
    KVG_ERR_IO = 4,            /* the operating system refused: file, pipe, process */
    KVG_ERR_NOT_FOUND = 5,     /* a name that does not exist */
    KVG_ERR_EXHAUSTED = 6,     /* a pool has too few blocks; the request itself is right */
    KVG_ERR_DEVICE = 7,        /* a kernel broke the device for this process; a new process may go on */
    KVG_ERR_DEVICE_LOST = 8    /* the device does not answer any more */
} kvg_status;

#if defined(__GNUC__)
#define KVG_CHECKED __attribute__((warn_unused_result))
#define KVG_PRINTF(format_arg, first_arg) __attribute__((format(printf, format_arg, first_arg)))
#else
#define KVG_CHECKED
#define KVG_PRINTF(format_arg, first_arg)
#endif

/* Sets this thread's error text (one line: control bytes become '?', cut at 511 bytes) and returns `status`, so that
 * callers write `return kvg_fail(KVG_ERR_INVALID, "...", ...);`. */
kvg_status kvg_fail(kvg_status status, const char *format, ...) KVG_PRINTF(2, 3);

/* Puts `prefix: ` in front of this thread's error text and returns `status` unchanged. */
kvg_status kvg_fail_in(kvg_status status, const char *format, ...) KVG_PRINTF(2, 3);

/* The text of this thread's last failure; never NULL. Valid until the next failure on this thread. */
const char *kvg_error_text(void);

/* Name of a status in lower case ("ok", "invalid", ...); never NULL. */
const char *kvg_status_name(kvg_status status);

#ifdef __cplusplus
}
#endif
#endif
