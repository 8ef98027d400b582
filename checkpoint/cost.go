package checkpoint

import "strconv"

// Cost is what calls of models cost, in USD. The zero value is nothing.
type Cost struct {
	USD     float64 `json:"usd"`               // as far as it is known
	Unknown bool    `json:"unknown,omitempty"` // it is more: a price or a count of tokens is not known
}

// Plus is the cost of both.
func (c Cost) Plus(o Cost) Cost { return Cost{c.USD + o.USD, c.Unknown || o.Unknown} }

// MarshalJSON leaves usd out where nothing of it is known: that is not 0.
func (c Cost) MarshalJSON() ([]byte, error) {
	if c.Unknown && c.USD == 0 {
		return []byte(`{"unknown":true}`), nil
	}
	b := strconv.AppendFloat([]byte(`{"usd":`), c.USD, 'f', -1, 64)
	if c.Unknown {
		b = append(b, `,"unknown":true`...)
	}
	return append(b, '}'), nil
}

// String is "0.0123 USD", "0.0123 USD and what has no known price", or "price
// unknown".
func (c Cost) String() string {
	usd := strconv.FormatFloat(c.USD, 'f', 4, 64) + " USD"
	switch {
	case c.Unknown && c.USD == 0:
		return "price unknown"
	case c.Unknown:
		return usd + " and what has no known price"
	}
	return usd
}
