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

// holdHeap orders waiting attempts by the sync they need.
type holdHeap []queuedSeq

func (h holdHeap) Len() int { return len(h) }
func (h holdHeap) Less(i, j int) bool {
	return h[i].seq < h[j].seq || h[i].seq == h[j].seq && h[i].node < h[j].node
}
func (h holdHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *holdHeap) Push(x any)   { *h = append(*h, x.(queuedSeq)) }
func (h *holdHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
