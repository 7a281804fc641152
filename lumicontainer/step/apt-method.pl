#!/usr/bin/perl
# Run apt's method of this file's name, and redirect its URLs to mirrors.
#
# Apt has no setting that replaces URLs in the sources of others. So this program answers a request for
# a mirrored URL with "103 Redirect", as apt's method "mirror" does. It passes other messages to apt's
# method and back. A message ends with an empty line (libapt-pkg-doc, method). The image keeps no trace:
# apt names files by the URLs of its sources.
#
# It ends with its method when apt closes a pipe, when the method ends, and at signals of apt or a
# terminal. Every system with apt has Perl: perl-base is essential there.
use strict;
use warnings;
use IO::Handle;

my $SECONDS = 3;    # until a method that does not end is killed
my ($name) = $0 =~ m{([^/]+)\z};
my @mirrors = sort { length $b->[0] <=> length $a->[0] }
    map { [split ' ', $_, 2] } grep { / \S/ } split /\n/, $ENV{LUMICONTAINER_MIRRORS} // '';

sub mirrored {
    my ($url) = @_;
    for my $mirror (@mirrors) {
        my ($from, $to) = @$mirror;
        return $to . substr $url, length $from if index($url, $from) == 0;
    }
    return $url;
}

# Return the answer to apt, or nothing if the message is for the method.
sub redirect {
    my ($message) = @_;
    return '' unless $message =~ /\A600/ && $message =~ /^URI:[ ]?(.*)$/m;
    my ($url, $there) = ($1, mirrored($1));
    return $there eq $url ? '' : "103 Redirect\nURI: $url\nNew-URI: $there\n\n";
}

pipe my $commands, my $to_method or die "pipe: $!\n";
pipe my $from_method, my $answers or die "pipe: $!\n";
my $method = fork // die "fork: $!\n";
if (!$method) {
    open STDIN, '<&', $commands and open STDOUT, '>&', $answers or die "pipe: $!\n";
    close $_ for $commands, $to_method, $from_method, $answers;
    exec "/usr/lib/apt/methods/$name" or die "/usr/lib/apt/methods/$name: $!\n";
}
close $_ for $commands, $answers;

# End the method, by SIGKILL if it does not end itself, and then this program.
sub finish {
    my ($code) = @_;
    close $to_method;
    for my $number ('TERM', 'KILL') {
        for (1 .. 10 * $SECONDS) {
            exit($code || ($? ? 1 : 0)) if waitpid $method, 1;
            kill $number, $method if $_ == 1 && ($code || $number eq 'KILL');
            select undef, undef, undef, 0.1;
        }
        $code ||= 1;
    }
    exit $code;
}
$SIG{$_} = sub { finish(1) } for qw(INT TERM HUP QUIT PIPE);

# Move bytes in both directions; a full pipe blocks only its own direction.
$_->blocking(0) for \*STDIN, \*STDOUT, $to_method, $from_method;
my ($received, $for_method, $for_apt) = ('', '', '');
while (1) {
    my ($read, $write) = ('', '');
    vec($read, fileno $_, 1) = 1 for \*STDIN, $from_method;
    vec($write, fileno STDOUT, 1) = 1 if length $for_apt;
    vec($write, fileno $to_method, 1) = 1 if length $for_method;
    next if select($read, $write, undef, undef) < 0;
    if (vec $read, fileno $from_method, 1) {
        my $got = sysread $from_method, $for_apt, 1 << 16, length $for_apt;
        if (defined $got && !$got) {
            STDOUT->blocking(1);
            syswrite STDOUT, $for_apt if length $for_apt;
            finish(0);
        }
    }
    if (vec $read, fileno STDIN, 1) {
        my $got = sysread STDIN, $received, 1 << 16, length $received;
        finish(0) if defined $got && !$got;
        while ($received =~ s/\A(.*?\n)\n+//s) {
            my $message = "$1\n";
            my $answer = redirect($message);
            if ($answer) { $for_apt .= $answer }
            else { $for_method .= $message }
        }
    }
    for ([\*STDOUT, \$for_apt], [$to_method, \$for_method]) {
        my ($pipe, $text) = @$_;
        next unless length $$text && vec $write, fileno $pipe, 1;
        my $put = syswrite $pipe, $$text;
        substr($$text, 0, $put) = '' if $put;
    }
}
