// void emulator_switch(void **save, void *to): leaves this stack, keeps its top in *save, and goes on where `to` was left.
// The calling convention has the caller keep all registers but these; the floating-point modes are one for all fibres.
    .text
    .globl emulator_switch
    .hidden emulator_switch
    .type emulator_switch, @function
    .p2align 4
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emulator_switch, .-emulator_switch
    .section .note.GNU-stack, "", @progbits
