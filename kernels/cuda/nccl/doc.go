// Package nccl speaks to NVIDIA's library of collectives, libnccl.so.2, where there is one: it is opened when several devices
// are joined, and nothing is linked to it. Communicators are of the non-blocking kind, so that a rank that waits for another
// can always be made to leave; a call returns when its work is in the stream. The library's own settings, the environment
// variables NCCL_*, are the user's.
package nccl
