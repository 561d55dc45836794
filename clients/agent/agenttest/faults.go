package agenttest

import "sync"

// Faults is the part of a World that injects failures and counts writes, for embedding. The
// zero value injects none. It is safe for concurrent use.
type Faults struct {
	mu          sync.Mutex
	changes     int // guarded by mu, as is all that follows
	readErr     error
	writeErr    error
	beforeWrite func()
}

// Changes implements World.
func (f *Faults) Changes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// FailReads implements World.
func (f *Faults) FailReads(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readErr = err
}

// FailWrites implements World.
func (f *Faults) FailWrites(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writeErr = err
}

// BeforeWrite implements World.
func (f *Faults) BeforeWrite(call func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beforeWrite = call
}

// ReadErr is the error for reads; nil: reads succeed.
func (f *Faults) ReadErr() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readErr
}

// WriteErr is the error for writes of a count; nil: writes succeed.
func (f *Faults) WriteErr() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeErr
}

// BeginWrite must be called before a count is written. The caller must not hold a lock of the
// world, because the function given to BeforeWrite may take it.
func (f *Faults) BeginWrite() {
	f.mu.Lock()
	before := f.beforeWrite
	f.beforeWrite = nil
	f.mu.Unlock()
	if before != nil {
		before()
	}
}

// Wrote counts a write that changed a workload.
func (f *Faults) Wrote() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes++
}
