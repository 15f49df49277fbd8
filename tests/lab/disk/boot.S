# The boot sector of the test disk: prints a marker on the first serial port and halts for good.
# It talks to the port itself, since a BIOS need not serve int 14h. Assembled with --32 -> .code16, linked at 0x7c00.

    .code16
    .globl start
start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    ljmp $0, $1f                # some firmware starts us at 07c0:0000
1:  movw $text, %si

next:
    lodsb
    testb %al, %al
    jz halt
    movb %al, %bl
    movw $0xffff, %cx           # a bounded wait: a machine without the port must not hang before it halts
wait:
    movw $0x3fd, %dx            # line status register
    inb %dx, %al
    testb $0x20, %al            # transmitter empty
    loopz wait
    movb %bl, %al
    movw $0x3f8, %dx
    outb %al, %dx
    jmp next

halt:
    hlt
    jmp halt

text:
    .asciz "\r\nFARRIER-DISK-BOOTED bios\r\n"

    .org 440                    # disk signature
    .ascii "FARR"
    .word 0

    .org 446                    # one partition: active, an EFI system partition, found by LBA
    .byte 0x80, 0xff, 0xff, 0xff
    .byte 0xef, 0xff, 0xff, 0xff
    .long 2048                  # the first sector, on a MiB boundary
    .long PARTITION_SECTORS

    .org 510
    .word 0xaa55
