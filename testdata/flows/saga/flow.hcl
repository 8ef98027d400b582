# A trip is booked in three steps at three places. When the last one fails, what
# the others have done is taken back, newest first; the next apply begins anew.
workflow "trip" {
  description = "Books a hotel and a flight and pays for both, or leaves nothing booked"
  on_failure  = compensate
}

variable "guest" {
  type    = string
  default = "Ada Lovelace"
}

variable "ledger" {
  type        = string
  description = "The file that stands for the booking systems: a line for each request"
}

variable "card" {
  type        = string
  description = "A file that must be there for the payment to be accepted"
}

# Each step runs a program of this machine; it stands for a call of a booking
# system, to which the idempotency key would go along.
plugin "shell" {
  source = "std/exec"
}

step "hotel" {
  uses  = plugin.shell.run
  input = { program = "sh", args = ["-c", "echo \"book hotel for $1\" >> \"$2\"; echo 17", "sh", var.guest, var.ledger] }

  compensate {
    uses  = plugin.shell.run
    input = { program = "sh", args = ["-c", "echo \"cancel hotel room $1\" >> \"$2\"", "sh", trimspace(self.output.stdout), var.ledger] }
  }
}

step "flight" {
  uses       = plugin.shell.run
  depends_on = [step.hotel]
  input      = { program = "sh", args = ["-c", "echo \"book flight for $1\" >> \"$2\"; echo XY123", "sh", var.guest, var.ledger] }

  compensate {
    uses  = plugin.shell.run
    input = { program = "sh", args = ["-c", "echo \"cancel flight $1\" >> \"$2\"", "sh", trimspace(self.output.stdout), var.ledger] }

    retry {
      max_attempts = 3
      delay        = "100ms"
    }
  }
}

step "pay" {
  uses       = plugin.shell.run
  depends_on = [step.hotel, step.flight]
  input      = { program = "sh", args = ["-c", "test -f \"$1\" || { echo declined >&2; exit 1; }; echo paid >> \"$2\"", "sh", var.card, var.ledger] }
}

output "room" {
  value = trimspace(step.hotel.output.stdout)
}
