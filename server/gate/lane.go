package gate

import "container/list"

// lane has the messages of one kind, being read or waiting.
type lane struct {
	reading, waiting int
	// callers are the callers with waiting messages, and turns the same queues in the order
	// in which their next messages are read.
	callers map[string]*queue
	turns   list.List // of *queue
}

// queue has the waiting messages of a caller, the first at the front.
type queue struct {
	caller string
	places list.List // of *place
	turn   *list.Element
}

// place is the place of a waiting message.
type place struct {
	turn  chan struct{} // closed on its turn
	queue *queue
	at    *list.Element
}

func (l *lane) waitingOf(caller string) int {
	if q := l.callers[caller]; q != nil {
		return q.places.Len()
	}
	return 0
}

func (l *lane) add(caller string) *place {
	q := l.callers[caller]
	if q == nil {
		if l.callers == nil {
			l.callers = make(map[string]*queue)
		}
		q = &queue{caller: caller}
		l.callers[caller], q.turn = q, l.turns.PushBack(q)
	}
	p := &place{turn: make(chan struct{}), queue: q}
	p.at = q.places.PushBack(p)
	l.waiting++
	return p
}

func (l *lane) remove(p *place) {
	l.waiting--
	p.queue.places.Remove(p.at)
	if p.queue.places.Len() == 0 {
		l.turns.Remove(p.queue.turn)
		delete(l.callers, p.queue.caller)
	}
}

// next removes the message whose turn it is; after it comes another caller's.
func (l *lane) next() *place {
	q := l.turns.Front().Value.(*queue)
	l.turns.MoveToBack(q.turn)
	p := q.places.Front().Value.(*place)
	l.remove(p)
	return p
}
