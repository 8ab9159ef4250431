/* What tests/planted/attacker.c tries, by the number of KV heads of the case. */
#ifndef KVG_TESTS_PLANTED_ATTACKS_H
#define KVG_TESTS_PLANTED_ATTACKS_H

typedef enum attack {
    ATTACK_NONE = 1,
    ATTACK_READS,             /* memory of the judge or of its parent, by process_vm_readv */
    ATTACK_OPENS_MEMORY,      /* the same by /proc/PID/mem, to read and to write */
    ATTACK_OPENS_DESCRIPTORS, /* their files by /proc/PID/fd, shared memory without a name among them */
    ATTACK_SIGNALS,
    ATTACK_HAS_DESCRIPTORS,   /* that kvgold itself was started with */
    ATTACK_HAS_RIGHTS,        /* capabilities, or a way to new ones */
    ATTACK_LEAVES_DAEMON,     /* which outlives the case */
    ATTACK_FORGES,            /* a line in the result file, by its name */
    ATTACKS
} attack;

#endif
