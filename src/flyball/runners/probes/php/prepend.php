<?php
// Prepended to every PHP script of a proof: asks phpunit for a JUnit report in ../../report.
if (PHP_SAPI === 'cli' && isset($_SERVER['argv'][0])
    && preg_match('#(^|/)phpunit(\.phar)?$#', $_SERVER['argv'][0]) && !in_array('--log-junit', $_SERVER['argv'], true)) {
    $report = dirname(__DIR__, 2) . '/report/phpunit-' . getmypid() . '.xml';
    array_push($_SERVER['argv'], '--log-junit', $report);
    $GLOBALS['argv'] = $_SERVER['argv'];
    $GLOBALS['argc'] = $_SERVER['argc'] = count($_SERVER['argv']);
}
