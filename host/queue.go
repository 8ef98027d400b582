package host

// queue is a first-in first-out list that reuses its memory.
type queue struct {
	items []int32
	head  int
}

func (q *queue) len() int     { return len(q.items) - q.head }
func (q *queue) push(i int32) { q.items = append(q.items, i) }
func (q *queue) pop() int32 {
	i := q.items[q.head]
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 1024 && q.head*2 > len(q.items) {
		q.items = append(q.items[:0], q.items[q.head:]...)
		q.head = 0
	}
	return i
}
