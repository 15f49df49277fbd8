# The UEFI counterpart of boot.S: an EFI application that prints the same marker on the first serial port and halts.
# Interrupts stay off, so the firmware's watchdog, which would reset the machine after five minutes, never runs.

    .text
    .globl efi_main
efi_main:
    cli
    leaq text(%rip), %rsi

next:
    lodsb
    testb %al, %al
    jz halt
    movb %al, %bl
    movl $0xffff, %ecx          # a bounded wait, as in boot.S
wait:
    movw $0x3fd, %dx
    inb %dx, %al
    testb $0x20, %al
    loopz wait
    movb %bl, %al
    movw $0x3f8, %dx
    outb %al, %dx
    jmp next

halt:
    hlt
    jmp halt

# Beside the code, so that nothing has to be relocated between object formats.
text:
    .asciz "\r\nFARRIER-DISK-BOOTED uefi\r\n"
