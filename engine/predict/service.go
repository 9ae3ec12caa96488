package predict

import (
	"fmt"
	"sync"
	"time"

	"dsstne/engine/csr"
	"dsstne/internal/fault"
	"dsstne/internal/parallel"
	"dsstne/kernels"
)

// ServiceOptions are what a service does with every row.
type ServiceOptions struct {
	Layer       string // the output layer; empty: the only one
	K           int64  // length of the longest list
	Filter      Filter
	ExcludeSeen bool          // leave out what the first input's row has stored, unless a question says otherwise
	Wait        time.Duration // how long a batch that is not full waits for further rows
}

// Question is rows to rank. All matrices have as many rows. They need not be validated: their rows are checked as they
// are copied, once.
type Question struct {
	Inputs  []*csr.Matrix // by input layer, in the order of the model's layers
	Exclude *csr.Matrix   // items to leave out; nil: see ServiceOptions
	K       int64         // length of the lists, up to that of the service
	IDs     []int32       // [rows, K]
	Scores  []float32     // [rows, K]
}

// Waiter waits for the answer to a question.
type Waiter interface {
	// Answer says how the question has ended, and whom the waiter wakes next (nil: nobody). It does not wake.
	Answer(err error, next Waiter)
	// Wake wakes the waiter, after Answer. Waiters wake one another in turn because those in Python all need the
	// interpreter's lock: most of them would only wake to wait again if all woke at once.
	Wake()
}

// service ranks rows that come with the questions. Any number of goroutines may ask. The first one leads: it computes
// a batch of all rows that are waiting until its own are answered. A goroutine of the service goes on with those that
// have come meanwhile. Everything is planned and allocated when the service opens.
type service struct {
	p       *Predictor
	o       ServiceOptions
	call    *call
	given   []*csr.Given // by input, and behind them the items to leave out
	names   []string     // what messages call these
	entries int64        // most stored entries of a batch, in each of these

	mu    sync.Mutex // guards what follows
	queue []*asked
	led   bool // somebody computes batches
	idle  []*asked
	fault error // what has ended the service

	// Of the one who leads: the batch.
	spans []span
	rows  [][]csr.Row // by given
	count int64
}

// asked is a question that waits.
type asked struct {
	Question
	waiter Waiter
	read   []csr.Entries // private copies of the rows, by given
	list   []int64       // numbers of all rows
	rows   int64
	taken  int64 // rows that are in batches
	left   int64 // rows that are not answered
	err    error
}

// span is consecutive rows of a question in a batch.
type span struct {
	q     *asked
	first int64
	count int64
}

// rowEntries is how many entries a batch has room for on average of its rows; a single row may have any number.
const rowEntries = 128

// mostKept is how many entries the memory of a question may have that is kept for the next one.
const mostKept = 1 << 16

// Serve makes the predictor answer questions, and nothing else. No dataset is bound to it. After a failure it can only
// be closed.
func (p *Predictor) Serve(o ServiceOptions) (err error) {
	if p.Rows() >= 0 {
		return fault.New(fault.InvalidState, "the predictor has datasets or serves already; open another one to serve")
	}
	s := &service{p: p, o: o}
	output, err := p.output(o.Layer)
	if err != nil {
		return err
	}
	s.entries = rowEntries * p.batchSize
	for i := range p.Ports {
		if port := &p.Ports[i]; port.Reads || i == output {
			s.entries = max(s.entries, port.Size)
		}
	}
	for i := range p.Ports {
		if port := &p.Ports[i]; port.Reads {
			given := csr.NewGiven(port.Size, p.batchSize, s.entries)
			if err := p.Bind(port.Name, given); err != nil {
				return err
			}
			s.given, s.names = append(s.given, given), append(s.names, fmt.Sprintf("layer %q", port.Name))
		}
	}
	items := p.Ports[output].Size
	if o.ExcludeSeen && s.given[0].Columns() != items {
		return fault.New(fault.InvalidArgument, "the input has %d columns and the output layer %d items, so the items "+
			"stored in a row are not those to leave out", s.given[0].Columns(), items)
	}
	s.given = append(s.given, csr.NewGiven(items, p.batchSize, s.entries))
	s.names = append(s.names, "items to leave out")
	s.rows = make([][]csr.Row, len(s.given))
	if s.call, err = p.newCall(o.Layer, nil, s.given[len(s.given)-1], o.Filter); err != nil {
		return err
	}
	s.call.k = o.K
	of, scorer := p.layerScreening(output, p.program)
	if s.call.screening, err = p.makeScreening(of, scorer, p.planned); err == nil {
		err = s.call.build()
	}
	if err != nil {
		s.call.close()
		return err
	}
	s.call.release()
	p.service = s
	return nil
}

// Ask answers a question, or reports that it waits: the waiter is then told of the answer. It is safe from any number
// of goroutines. Whoever waits should do so outside of Go if Go was called from C: for Go's scheduler, each wait of a
// goroutine that is locked to its thread is two switches of threads more.
func (p *Predictor) Ask(q Question, w Waiter) (waits bool, err error) {
	s := p.service
	if s == nil {
		return false, fault.New(fault.InvalidState, "the predictor does not serve; call dsstne_predictor_serve first")
	}
	a := s.take()
	defer func() {
		if !waits {
			s.put(a)
		}
	}()
	if err := a.set(q, w, s); err != nil || a.rows == 0 {
		return false, err
	}
	s.mu.Lock()
	if s.fault != nil {
		s.mu.Unlock()
		return false, s.fault
	}
	s.queue = append(s.queue, a)
	waits = s.led
	s.led = true
	s.mu.Unlock()
	if waits {
		return true, nil
	}
	for a.left > 0 {
		s.lead(a)
	}
	return false, a.err
}

// take gives a question's memory, which an earlier one may have used.
func (s *service) take() *asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		a := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return a
	}
	return &asked{read: make([]csr.Entries, len(s.given))}
}

func (s *service) put(a *asked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(a)
}

// keep keeps a question's memory, unless it is large. The lock is held.
func (s *service) keep(a *asked) {
	for i := range a.read {
		if cap(a.read[i].Indices) > mostKept {
			return
		}
	}
	a.Question, a.waiter, a.err = Question{}, nil, nil
	s.idle = append(s.idle, a)
}

// set reads the rows of a question.
func (a *asked) set(q Question, w Waiter, s *service) error {
	inputs := len(s.given) - 1
	switch {
	case len(q.Inputs) != inputs:
		return fault.New(fault.InvalidArgument, "the model has %d input layers, but %d matrices were given", inputs,
			len(q.Inputs))
	case q.K < 1 || q.K > s.o.K:
		return fault.New(fault.InvalidArgument, "k is %d; this predictor was opened for lists of 1 to %d items", q.K, s.o.K)
	}
	a.Question, a.waiter, a.rows, a.taken = q, w, q.Inputs[0].Rows(), 0
	a.left = a.rows
	for i, m := range append(q.Inputs[:inputs:inputs], q.Exclude) {
		a.read[i].Reset()
		switch {
		case m == nil:
			continue
		case m.Columns() != s.given[i].Columns():
			return fault.New(fault.InvalidData, "%s: the matrix has %d columns instead of %d", s.names[i], m.Columns(),
				s.given[i].Columns())
		case m.Rows() != a.rows:
			return fault.New(fault.InvalidData, "%s: the matrix has %d rows, the first one has %d", s.names[i], m.Rows(), a.rows)
		}
		a.list = a.list[:0] // again, because reading may overwrite it
		for row := range a.rows {
			a.list = append(a.list, row)
		}
		if err := m.Read(a.list, &a.read[i]); err != nil {
			return fault.Wrap(err, "%s", s.names[i])
		}
	}
	return nil
}

// row is a row of a question, for each of what is given.
func (s *service) row(a *asked, given int, row int64) csr.Row {
	if given == len(s.given)-1 && a.Exclude == nil {
		if !s.o.ExcludeSeen {
			return csr.Row{}
		}
		given = 0
	}
	return a.read[given].Row(int(row))
}

// serve computes batches as long as somebody waits.
func (s *service) serve() {
	for s.lead(nil) {
	}
}

// lead computes a batch and reports whether others wait. own is the leader's question; the service itself has none.
func (s *service) lead(own *asked) (more bool) {
	if s.o.Wait > 0 {
		s.await()
	}
	s.form()
	err := parallel.Guarded(func(int) error { return s.run() }, 0)
	next, more := s.settle(own, err)
	if next != nil {
		next.Wake()
	}
	return more
}

// await gives others time to ask, until there are enough rows for a batch.
func (s *service) await() {
	const looks = 8
	for range looks {
		rows := int64(0)
		s.mu.Lock()
		for _, a := range s.queue {
			rows += a.rows - a.taken
		}
		s.mu.Unlock()
		if rows >= s.p.batchSize {
			return
		}
		time.Sleep(s.o.Wait / looks)
	}
}

// form moves as many waiting rows into a batch as it has room for, in the order of their arrival.
func (s *service) form() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans, s.count = s.spans[:0], 0
	for i := range s.rows {
		s.rows[i] = s.rows[i][:0]
	}
	entries := make([]int64, len(s.given))
	for len(s.queue) > 0 {
		a := s.queue[0]
		first := a.taken
		for a.taken < a.rows && s.add(a, entries) {
			a.taken++
		}
		s.spans = append(s.spans, span{a, first, a.taken - first})
		if a.taken < a.rows {
			return
		}
		s.queue = append(s.queue[:0], s.queue[1:]...)
	}
}

// add adds the next row of a question to the batch, if there is room.
func (s *service) add(a *asked, entries []int64) bool {
	if s.count == s.p.batchSize {
		return false
	}
	for i := range s.given {
		n := int64(len(s.row(a, i, a.taken).Indices))
		if s.count > 0 && entries[i]+n > s.entries {
			return false
		}
		entries[i] += n
	}
	for i := range s.given {
		s.rows[i] = append(s.rows[i], s.row(a, i, a.taken))
	}
	s.count++
	return true
}

// settle answers those whose rows are done, and returns whom to wake first. If the leader's own rows are done and
// others wait, the service goes on without it. After a defect nobody waits any more.
func (s *service) settle(own *asked, err error) (next Waiter, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fault.KindOf(err) == fault.Internal {
		s.fault = fault.Wrap(err, "a defect of the library has ended this predictor; close it")
		for _, a := range s.queue {
			s.spans = append(s.spans, span{q: a})
		}
		s.queue = s.queue[:0]
	}
	for i := len(s.spans) - 1; i >= 0; i-- {
		a := s.spans[i].q
		if a.left == 0 { // stood in the batch and in the queue
			continue
		}
		if a.left -= s.spans[i].count; err != nil {
			a.left, a.err = 0, err
			if len(s.queue) > 0 && s.queue[0] == a { // its other rows
				s.queue = append(s.queue[:0], s.queue[1:]...)
			}
		}
		if a.left == 0 && a != own {
			waiter := a.waiter
			waiter.Answer(a.err, next)
			next = waiter
			s.keep(a)
		}
	}
	s.led = len(s.queue) > 0
	if s.led && own != nil && own.left == 0 {
		go s.serve()
	}
	return next, s.led
}

// run ranks the batch.
func (s *service) run() error {
	p := s.p
	done, err := p.begin()
	if err != nil {
		return err
	}
	defer done()
	if err := p.Copies().Refresh(); err != nil {
		return err
	}
	if err := p.renewScreenings(); err != nil {
		return err
	}
	for i, given := range s.given {
		given.Set(s.rows[i])
	}
	all := p.cut(rowList{count: s.count}, s.call.readers...)
	return p.batches(s.call.list, all, func(*batch) error { return s.hand() })
}

// hand copies what was found to those who have asked.
func (s *service) hand() error {
	ids, scores, err := s.call.found(s.count)
	if err != nil {
		return err
	}
	place := int64(0)
	for _, x := range s.spans {
		k := x.q.K
		for row := x.first; row < x.first+x.count; row++ {
			copy(kernels.Bits(x.q.IDs[row*k:(row+1)*k]), ids[place*s.o.K:])
			copy(x.q.Scores[row*k:(row+1)*k], scores[place*s.o.K:])
			place++
		}
	}
	return nil
}
