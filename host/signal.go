package host

import (
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// signal is something that happened.
type signal struct {
	kind signalKind
	node int32
	end  ending     // sigEnded
	fan  []int32    // sigEnded with endExpanded: attempts already made of each instance
	err  *sdk.Error // sigEnded with endFailed, sigStop

	// known are instances of steps that have ended by a record, node among them,
	// with sigEnded.
	known []*knownFan

	seq checkpoint.Seq // sigIntent, sigPut, sigPersisted
	now time.Duration  // since the run began in this process
}

// knownFan is how the instances of a step, or of one of its instances, have ended by
// its record.
type knownFan struct {
	step   int32
	states []sdk.State
	below  []*knownFan // of those that have instances themselves; nil without any
}

type signalKind uint8

const (
	sigStart     signalKind = iota
	sigPrepared             // a held step is ready to start its attempt
	sigEnded                // a worker is done with a step
	sigIntent               // the intent is committed as seq
	sigPut                  // the result is committed as seq; 0 = nothing had to be
	sigPersisted            // everything up to seq is durable
	sigTimer                // a retry's delay is over
	sigTurn                 // the limiter lets a step go that waits for it
	sigStop                 // cancel or run timeout, err says why
	sigDrain                // nothing starts any more, what runs may end; err says why
)

// ending is how a worker's turn with a step ended.
type ending uint8

const (
	endResult    ending = iota // an output, or a record that is reused
	endSkipped                 // its `when` is false
	endCondition               // its `when` is true; inputs are still awaited
	endExpanded                // its for_each gives instances
	endFailed                  // the attempt failed, or the input could not be evaluated
	endUnready                 // no attempt was made: its plugin could not be loaded
	endWaits                   // no attempt was made: the plugin's limiter holds it back
)

// command is something to do.
type command struct {
	kind    commandKind
	node    int32
	attempt int32
	turn    turn          // cmdWork: what is to be done
	hold    bool          // cmdWork: prepare only
	which   int32         // cmdWork: the fallback to try, from 1; 0 = the step itself
	before  int32         // cmdWork: the action to run first, from 1; 0 = none
	early   bool          // cmdWork, turnExpand: something that the step names has not ended
	final   bool          // cmdNote of a failure: no retry follows
	state   sdk.State     // cmdNote
	after   time.Duration // cmdTimer
	err     *sdk.Error    // cmdNote, cmdCancel, cmdFinish
	status  checkpoint.RunStatus
}

// turn says what a worker does with a node.
type turn uint8

const (
	turnStep   turn = iota // all of it: `when`, look-up, input, attempt
	turnWhen               // evaluate `when` only
	turnExpand             // evaluate for_each
	turnGather             // put the instances' outputs together
)

type commandKind uint8

const (
	cmdWork   commandKind = iota // decide and, unless hold, run an attempt: answered by sigPrepared or sigEnded
	cmdIntent                    // commit the intent of a prepared step: sigIntent
	cmdRun                       // run the prepared attempt: sigEnded
	cmdPut                       // commit the result: sigPut
	cmdTimer                     // sigTimer after a while
	cmdCancel                    // end the running attempt; sigEnded follows as always
	cmdNote                      // tell: the step has this state now
	cmdNotePersisted
	cmdFinish // the run has ended with status
)
