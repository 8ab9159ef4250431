/* The program's exit codes (CONTRIBUTING.md, "Conventions"). */
#ifndef KVG_SUPPORT_EXIT_CODE_H
#define KVG_SUPPORT_EXIT_CODE_H

enum {
    KVG_EXIT_PASS = 0,        /* everything passed */
    KVG_EXIT_FAIL = 1,        /* a case failed */
    KVG_EXIT_USAGE = 2,       /* bad usage, or a bad config */
    KVG_EXIT_ENVIRONMENT = 3, /* no file, no memory, no device */
    KVG_EXIT_NOTHING = 77     /* nothing could run */
};

#endif
