// Package fault is the one family of errors of the engine.
//
// An error has a Kind, which the C ABI turns into a status code and Python into an exception class, and a message that
// says what happened, to which thing, and what to do about it. Lower layers create errors with New or Wrap; upper
// layers may prefix a message with Wrap but never change what kind it is without a reason.
package fault

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"
)

// Kind says what went wrong, coarsely enough for a program to act on. The numbers are those of dsstne_status.
type Kind int32

// The kinds, in the order and with the numbers of include/dsstne.h; new ones are appended.
const (
	OK                Kind = iota // never carried by an error
	InvalidArgument               // an option, a name, a size or a pointer that cannot be meant
	InvalidHandle                 // a handle that is null, closed, or of another kind
	InvalidState                  // a call at the wrong time: not bound yet, already bound
	InvalidData                   // input data that fails a check
	NotFound                      // a file, layer or tensor that is not there
	IO                            // the operating system refused to read or write
	CorruptFile                   // a file whose content fails a check
	Unsupported                   // understood, but not available in this build or version
	OutOfMemory                   // the plan does not fit, or memory was refused
	DeviceUnavailable             // a device that was asked for is not there
	DeviceFailed                  // a device failed while it worked
	Cancelled                     // ended by a cancel request
	Busy                          // the thing is in use by another call
	NotFinite                     // a loss, gradient or weight became NaN or infinite
	Internal                      // a defect of this library
)

// Error is what the engine returns.
type Error struct {
	Kind    Kind
	Message string
	Cause   error // may be nil
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Cause }

// New makes an error of a kind; the message follows fmt.Sprintf.
func New(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Wrap puts context before an error's message and keeps its kind (Internal for a foreign error). Wrap of nil is nil.
func Wrap(err error, format string, args ...any) error {
	return From(KindOf(err), err, format, args...)
}

// From gives a foreign error (of the operating system, of a library) a kind and context.
func From(kind Kind, err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...) + ": " + err.Error(), Cause: err}
}

// Because is New with a cause, whose text the message need not repeat.
func Because(kind Kind, cause error, format string, args ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// Errno is the number of the operating system's error that caused err, or 0.
func Errno(err error) syscall.Errno {
	var number syscall.Errno
	_ = errors.As(err, &number)
	return number
}

// KindOf is the kind of an error: OK for nil, Internal for an error that is not of this family.
func KindOf(err error) Kind {
	if err == nil {
		return OK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Grouped writes 20480 as 20,480, as messages do.
func Grouped(n int64) string {
	if -1000 < n && n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", Grouped(n/1000), max(n%1000, -(n%1000)))
}
