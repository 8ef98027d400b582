package main

// inCycle says of each edge whether it is part of a cycle: whether both its
// ends are in one strongly connected component (Tarjan's algorithm, with a
// stack of its own, for a chain may be as long as the flow).
func inCycle(n int, edges [][2]int) []bool {
	out := make([][]int32, n)
	for _, e := range edges {
		out[e[0]] = append(out[e[0]], int32(e[1]))
	}
	index, low, component := make([]int32, n), make([]int32, n), make([]int32, n)
	next := make([]int, n)
	var stack, path []int32
	var count, components int32
	for root := range int32(n) {
		if index[root] != 0 {
			continue
		}
		path = append(path[:0], root)
		for len(path) > 0 {
			at := path[len(path)-1]
			if index[at] == 0 {
				count++
				index[at], low[at] = count, count
				stack = append(stack, at)
			}
			if next[at] < len(out[at]) {
				to := out[at][next[at]]
				next[at]++
				switch {
				case index[to] == 0:
					path = append(path, to)
				case component[to] == 0:
					low[at] = min(low[at], index[to])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				up := path[len(path)-1]
				low[up] = min(low[up], low[at])
			}
			if low[at] == index[at] {
				components++
				for {
					top := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					component[top] = components
					if top == at {
						break
					}
				}
			}
		}
	}
	in := make([]bool, len(edges))
	for k, e := range edges {
		in[k] = component[e[0]] == component[e[1]]
	}
	return in
}
