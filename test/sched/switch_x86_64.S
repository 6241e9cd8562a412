/* void sched_switch(void **from, void *to): keep what a call must keep, on the stack; *from = stack; stack = to. */
        .text
        .globl  sched_switch
        .type   sched_switch, @function
sched_switch:
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        ret
        .size   sched_switch, .-sched_switch
        .section .note.GNU-stack, "", @progbits
