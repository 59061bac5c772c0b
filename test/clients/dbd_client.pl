#!/usr/bin/perl
# A DBD::Pg program: everything goes to stdout.
use strict;
use warnings;
use DBI qw(:sql_types);
use DBD::Pg qw(:pg_types);

$| = 1;
my $dbh = DBI->connect('dbi:Pg:', '', '', { RaiseError => 1, PrintError => 0, AutoCommit => 1, PrintWarn => 0 });
print "$dbh->{pg_server_version} ", $dbh->ping > 0 ? 'alive' : 'dead', "\n";
$dbh->do('drop table if exists dp');
$dbh->do('create table dp (id serial primary key, v text, b bytea)');
my $put = $dbh->prepare('insert into dp (v, b) values (?, ?) returning id');
for my $i (1 .. 50) {
	$put->bind_param(1, "v$i");
	$put->bind_param(2, "\x00\x01$i", { pg_type => PG_BYTEA });
	$put->execute;
	my ($id) = $put->fetchrow_array;
	die unless $id == $i;
}
my $get = $dbh->prepare('select v, length(b) from dp where id = ?');
for my $i (3, 4, 3, 99) {
	my $row = $dbh->selectrow_arrayref($get, undef, $i);
	print $row ? "@$row" : 'none', "\n";
}
print join(',', map { $_->[0] } @{$dbh->selectall_arrayref('select id from dp where v = any(?) order by 1', undef, ['v1', 'v2'])}), "\n";
{
	local $dbh->{pg_server_prepare} = 0;
	print $dbh->selectrow_array('select ?::int + 1', undef, 4), "\n";
}
{
	local $dbh->{pg_placeholder_dollaronly} = 1;
	print $dbh->selectrow_array(q{select '{"a":1}'::jsonb ? 'a'}), "\n";
}
for my $sql ('select 1/0', 'selec', 'insert into dp (id) values (1)') {
	eval { $dbh->do($sql) };
	print $dbh->state, ' ', $dbh->err, ' ', $dbh->errstr, "\n";
}
$dbh->begin_work;
$dbh->do(q{insert into dp (v) values ('mine')});
$dbh->pg_savepoint('a');
eval { $dbh->do('select nothing') };
print $dbh->state, "\n";
$dbh->pg_rollback_to('a');
print $dbh->selectrow_array('select count(*) from dp'), "\n";
$dbh->rollback;
print $dbh->selectrow_array('select count(*) from dp'), "\n";
# COPY both ways.
$dbh->do('copy dp (v) from stdin');
$dbh->pg_putcopydata("copied$_\n") for 1 .. 100;
$dbh->pg_putcopyend;
$dbh->do(q{copy (select v from dp where v like 'copied9%' order by v) to stdout});
my $line;
print $line while $dbh->pg_getcopydata($line) >= 0;
eval {
	$dbh->do('copy dp (id) from stdin');
	$dbh->pg_putcopydata("bad\n");
	$dbh->pg_putcopyend;
};
print $dbh->state, "\n";
# A cursor by hand, asynchronous queries and their cancel.
$dbh->begin_work;
$dbh->do('declare c cursor for select id from dp order by id');
print scalar @{$dbh->selectall_arrayref('fetch 7 from c')}, "\n";
$dbh->commit;
my $async = $dbh->prepare('select pg_sleep(0.1), 42', { pg_async => DBD::Pg::PG_ASYNC });
$async->execute;
$async->pg_result;
print((($async->fetchrow_array)[1]), "\n");
my $long = $dbh->prepare('select pg_sleep(20)', { pg_async => DBD::Pg::PG_ASYNC });
$long->execute;
select undef, undef, undef, 0.2;
print $dbh->pg_cancel ? 'cancelled' : 'not', "\n";
print $dbh->selectrow_array('select 5'), "\n";
# Notifications and large objects.
$dbh->do('listen dp_news');
my $other = DBI->connect('dbi:Pg:', '', '', { RaiseError => 1 });
$other->do(q{notify dp_news, 'yes'});
my $note;
for (1 .. 200) {
	$note = $dbh->pg_notifies and last;
	select undef, undef, undef, 0.05;
}
print "$note->[0] $note->[2]\n";
$dbh->do('unlisten *');
$dbh->begin_work;
my $lo = $dbh->pg_lo_creat($dbh->{pg_INV_WRITE} | $dbh->{pg_INV_READ});
my $fd = $dbh->pg_lo_open($lo, $dbh->{pg_INV_WRITE} | $dbh->{pg_INV_READ});
print $dbh->pg_lo_write($fd, 'large object', 12), "\n";
$dbh->pg_lo_lseek($fd, 6, 0);
my $buffer = '';
$dbh->pg_lo_read($fd, $buffer, 6);
print "$buffer\n";
$dbh->pg_lo_close($fd);
$dbh->pg_lo_unlink($lo);
$dbh->commit;
print join(',', map { "$_->{COLUMN_NAME}:$_->{TYPE_NAME}" } @{$dbh->column_info(undef, 'public', 'dp', '%')->fetchall_arrayref({})}), "\n";
$dbh->do('drop table dp');
undef $_ for $async, $long, $get, $put;
$_->disconnect for $other, $dbh;
